"""Cases of the bytes of tensors."""
