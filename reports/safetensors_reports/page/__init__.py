"""Audit reports as self-contained HTML pages, and a chart that compares well-known programs."""
