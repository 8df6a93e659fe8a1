"""The loop that runs implementations, judges answers, shrinks inputs and records findings."""
