"""Workers: an implementation in a process of its own, confined, and asked one question at a time."""
