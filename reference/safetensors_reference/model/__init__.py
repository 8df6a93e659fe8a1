"""Models of several files judged as one: which files belong together, and whether they are whole."""
