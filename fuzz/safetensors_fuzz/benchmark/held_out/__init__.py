"""Readers with faults that no case of the corpus was written for."""
