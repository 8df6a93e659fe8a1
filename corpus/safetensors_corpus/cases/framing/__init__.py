"""Cases of the length prefix and of what is no such file at all."""
