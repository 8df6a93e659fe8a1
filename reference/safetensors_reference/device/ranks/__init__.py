"""Loads one model on several ranks, and makes all ranks agree on success or failure."""
