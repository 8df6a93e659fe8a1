"""The header of a file: the two ways to read one, and the types of their results."""
