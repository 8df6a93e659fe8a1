"""Writes single files from NumPy arrays or torch tensors, and replaces an existing file in a single step."""
