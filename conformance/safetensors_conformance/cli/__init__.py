"""The harness's commands under ``stc``."""
