"""Slices: what is asked for, and what must come of it."""
