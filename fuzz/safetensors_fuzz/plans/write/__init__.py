"""Written files: what is given to a writer, and what must come of it."""
