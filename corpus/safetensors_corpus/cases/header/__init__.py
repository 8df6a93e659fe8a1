"""Cases of the header's JSON text."""
