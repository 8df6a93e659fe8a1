"""Findings, their folders, and their replay."""
