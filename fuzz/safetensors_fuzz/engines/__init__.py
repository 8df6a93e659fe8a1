"""Engines, which choose inputs and the processes that run them."""
