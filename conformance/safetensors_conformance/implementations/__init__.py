"""Real implementations: descriptors, adapters and environments."""
