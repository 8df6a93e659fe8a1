"""Helpers of several adapters; they run inside the worker, with the library under test."""
