"""Writers for single files with NumPy and torch, which replace an existing file in a single step."""
