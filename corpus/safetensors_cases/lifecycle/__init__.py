"""Cases in which a file is used, changed or replaced while it is open."""
