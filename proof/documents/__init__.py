"""Fuzzing of the suite's parsers of foreign documents: index, slice, manifest, record and answer."""
