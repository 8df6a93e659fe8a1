"""The ways of each format; nothing here is imported but by the experiments."""
