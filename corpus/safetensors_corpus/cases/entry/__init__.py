"""Cases of the members of a tensor's entry."""
