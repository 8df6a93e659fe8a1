"""Cases of the metadata map."""
