"""Run records: writing a run line by line, and reading it back."""
