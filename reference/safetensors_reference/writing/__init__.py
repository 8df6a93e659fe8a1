"""Writers: one file, from NumPy or torch, in place of the old one in a single step."""
