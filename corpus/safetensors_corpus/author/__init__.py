"""The API for defining cases: decorators, and one builder for each kind of case."""
