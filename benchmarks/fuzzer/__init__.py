"""What the engines of the fuzzer find, and how fast they are."""
