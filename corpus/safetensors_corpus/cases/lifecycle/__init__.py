"""Cases of an open file, while the file on disk changes."""
