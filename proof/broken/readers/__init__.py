"""Readers with one fault each."""
