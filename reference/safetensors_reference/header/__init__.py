"""Reads the header of a file, either on the fast proving path or on the explaining path."""
