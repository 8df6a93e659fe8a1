"""Features of valid files by version: which programs support them, and since when."""
