"""Benchmarks of the fuzzer: how many bugs its engines find, and how fast they are."""
