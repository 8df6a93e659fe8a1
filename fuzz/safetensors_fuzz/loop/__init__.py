"""The loop runs implementations, judges answers, shrinks inputs and records findings."""
