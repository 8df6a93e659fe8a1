"""The cases, one or more modules per area. Each function builds one file with one purpose."""
