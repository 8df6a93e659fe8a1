"""Audits millions of files on one or many machines and writes one typed row per file."""
