"""Cases that measure the cost of large, long or deeply nested files."""
