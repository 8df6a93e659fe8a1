"""Bugs that the engines of the fuzzer find, and speed of the engines."""
