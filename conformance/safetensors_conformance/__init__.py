"""The harness: run any safetensors implementation over the corpus and judge what it does."""
