"""Returns the tensors of a file as arrays: all at once, lazily or in slices."""
