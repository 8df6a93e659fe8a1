"""Fuzzing of the suite's parsers of untrusted documents: index, slice, manifest, record and answer."""
