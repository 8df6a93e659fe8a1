"""Cases of shapes, their numbers and their product."""
