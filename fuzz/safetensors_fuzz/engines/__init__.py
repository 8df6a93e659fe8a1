"""Engines that generate inputs, and the processes in which they run."""
