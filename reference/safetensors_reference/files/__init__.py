"""Finds and reads local and remote files, and shows progress."""
