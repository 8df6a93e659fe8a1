"""Engines: where inputs come from, and in which processes they are asked."""
