"""Cases that check written files."""
