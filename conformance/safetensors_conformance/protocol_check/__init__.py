"""``stc check-protocol``: a program led through the protocol."""
