"""Loads one model onto several ranks. All ranks agree on whether a load succeeded."""
