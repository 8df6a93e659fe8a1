"""Differences between implementations on the same inputs."""
