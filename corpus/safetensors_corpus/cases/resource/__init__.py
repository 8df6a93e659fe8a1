"""Cases that cost something: large, long or deep."""
