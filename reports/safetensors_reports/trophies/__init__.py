"""Reported bugs, and the released versions that show them."""
