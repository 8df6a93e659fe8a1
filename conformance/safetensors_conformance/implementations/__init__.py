"""Real implementations: what they are (descriptors) and environments to run them in."""
