"""Checks models that consist of several files: finds these files and decides whether each model is whole."""
