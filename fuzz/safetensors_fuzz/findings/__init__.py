"""Findings, the folders that store them, and their replay."""
