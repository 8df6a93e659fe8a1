"""Audit reports as pages: one HTML file without anything from elsewhere, and a picture of many readers."""
