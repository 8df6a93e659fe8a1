"""Indexes: a checkpoint of several shards, and what must come of it."""
