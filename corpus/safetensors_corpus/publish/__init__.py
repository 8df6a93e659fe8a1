"""Building, verifying, counting, showing, copying and releasing the corpus."""
