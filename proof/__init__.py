"""Evidence that the suite works: planted faults, mutants of the reference, and recorded behaviour."""
