"""Cases that request slices of a tensor."""
