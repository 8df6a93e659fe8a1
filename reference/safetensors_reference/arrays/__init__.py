"""Returns the tensors of a file as arrays: lazily, all of them, or in slices."""
