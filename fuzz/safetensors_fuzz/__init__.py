"""Fuzzers that find inputs on which a reader crashes, hangs or disagrees with the reference."""
