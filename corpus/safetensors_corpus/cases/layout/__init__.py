"""Cases of ranges: against the shape, against each other and against the end of the file."""
