"""Run records: write a run line by line, and read it back."""
