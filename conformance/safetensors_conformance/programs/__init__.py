"""Foreign programs: started with limits, supervised, and ended with all their processes."""
