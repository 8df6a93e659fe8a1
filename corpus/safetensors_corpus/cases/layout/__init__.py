"""Cases of ranges, compared with the shape, each other and the end of the file."""
