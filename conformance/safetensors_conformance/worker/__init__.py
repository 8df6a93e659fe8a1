"""Workers: they run an implementation in its own confined process, one step at a time."""
