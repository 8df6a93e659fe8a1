"""The grammar describes valid files and files with deliberate faults as trees, and mutates them."""
