"""Cases that test the loading of sharded models."""
