"""Cases of slices of a tensor."""
