"""Sharded: files that a writer leaves when it divides a model among shards."""
