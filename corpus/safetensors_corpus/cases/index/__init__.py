"""Cases of sharded models."""
