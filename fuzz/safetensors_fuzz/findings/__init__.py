"""Findings, their folders, and replay."""
