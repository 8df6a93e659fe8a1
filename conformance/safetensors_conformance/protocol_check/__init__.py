"""``stc check-protocol``: checks of a program's use of the protocol."""
