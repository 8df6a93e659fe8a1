"""Slicers with one fault each."""
