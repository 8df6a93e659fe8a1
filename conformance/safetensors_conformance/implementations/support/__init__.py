"""Helpers that several adapters share. They run inside the worker, with the library under test."""
