"""Cases of dtypes."""
