"""Case functions. Each area has one or more modules, and each function builds a file that tests one thing."""
