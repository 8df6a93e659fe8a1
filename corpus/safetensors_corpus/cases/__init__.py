"""Case functions, in one or more modules per area. Each function builds one file that tests one thing."""
