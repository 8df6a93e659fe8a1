"""Adapters for the formats. Only the experiments import them."""
