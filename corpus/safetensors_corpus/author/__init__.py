"""API for defining cases: decorators, and a builder for each kind of case."""
