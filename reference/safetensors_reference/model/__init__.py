"""Finds models that consist of several files, and checks each model as a unit."""
