"""Audit reports as self-contained HTML pages, and a picture that compares many readers."""
