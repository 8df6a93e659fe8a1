"""Readers of indexes with one fault each."""
