"""Checks models of several files: finds the files that belong together and decides whether they are whole."""
