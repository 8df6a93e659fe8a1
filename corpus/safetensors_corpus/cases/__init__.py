"""Case functions, in one or more modules per area; each function builds one file with one purpose."""
