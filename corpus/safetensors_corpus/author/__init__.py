"""API for writing cases: decorators, and a builder for each kind of case."""
