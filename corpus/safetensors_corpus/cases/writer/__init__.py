"""Cases of files that are written."""
