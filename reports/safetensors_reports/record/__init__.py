"""Run records: what a run writes, line by line, and how it is read again."""
