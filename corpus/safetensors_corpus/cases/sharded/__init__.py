"""Sharded: files that a writer leaves after dividing a model into shards."""
