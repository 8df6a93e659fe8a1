"""``stc check-protocol``: check how a program uses the worker protocol."""
