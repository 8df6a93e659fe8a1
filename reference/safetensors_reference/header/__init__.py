"""The header of a file: the two paths that read one, and what both hand out."""
