"""Audit reports: one document, ``report.json``, from which everything else derives."""
