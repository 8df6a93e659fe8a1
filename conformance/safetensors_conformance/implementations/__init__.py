"""Real implementations: their descriptors, adapters and environments."""
