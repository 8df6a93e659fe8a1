"""The suite under pytest."""
