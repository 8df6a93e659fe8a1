"""Engines, which generate inputs, and the processes that run them."""
