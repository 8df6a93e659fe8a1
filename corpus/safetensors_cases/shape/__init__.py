"""Cases that test shapes, their numbers and their product."""
