"""Audit reports: one document, ``report.json``, and everything else a pure function of it."""
