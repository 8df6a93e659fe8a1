"""Reported bugs, and the released versions that were seen with them."""
