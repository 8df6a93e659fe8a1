"""Findings: what an implementation did wrong, and the folder that shows it."""
