"""Returns the tensors of a file as arrays, either lazily, all at once, or in slices."""
