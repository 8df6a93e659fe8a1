"""The language in which cases are written: what a case declares, and a builder for each kind of input."""
