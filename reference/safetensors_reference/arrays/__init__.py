"""Tensors of a file as arrays: opened lazily, whole or in slices."""
