"""``stc check-protocol``: checks of how a program uses the worker protocol."""
