"""Audit of millions of files: one typed row for each, on one machine or on many."""
