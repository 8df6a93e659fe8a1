"""Audit reports as self-contained HTML pages, and a picture of many readers."""
