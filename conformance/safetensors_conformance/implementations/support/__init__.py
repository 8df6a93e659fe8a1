"""Helpers of several adapters; each runs inside the worker, beside the library that is tested."""
