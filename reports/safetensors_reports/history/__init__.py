"""One implementation over its releases."""
