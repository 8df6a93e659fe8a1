"""Results of one implementation over its releases."""
