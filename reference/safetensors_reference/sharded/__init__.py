"""Sharded models: an index and the files that it names."""
