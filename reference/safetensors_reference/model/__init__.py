"""Finds the files that belong to one model, and checks whether the model is whole."""
