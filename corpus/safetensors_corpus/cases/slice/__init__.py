"""Cases of parts of a tensor that are asked for."""
