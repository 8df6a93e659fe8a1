"""Cases that test cost: large, long or deep files."""
