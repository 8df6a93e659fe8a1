"""Adapters of the formats; only the experiments import them."""
