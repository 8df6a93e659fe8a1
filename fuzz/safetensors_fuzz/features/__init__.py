"""Features of valid files that a reader might refuse all the same: each has its rule and can be taken out."""
