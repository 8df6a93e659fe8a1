"""Cases that test the JSON text of the header."""
