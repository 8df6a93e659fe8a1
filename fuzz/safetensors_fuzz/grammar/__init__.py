"""Valid files and files with deliberate faults as trees, and mutations of these trees."""
