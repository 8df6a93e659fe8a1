"""Audit reports: every other document is derived from ``report.json``."""
