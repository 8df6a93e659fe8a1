"""Cases of written files."""
