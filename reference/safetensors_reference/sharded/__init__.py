"""Sharded models, which consist of an index and the files that it names."""
