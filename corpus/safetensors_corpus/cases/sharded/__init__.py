"""Sharded: what a writer leaves behind that divides a model among files."""
