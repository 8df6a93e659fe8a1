"""Group the failures of a run by their likely causes."""
