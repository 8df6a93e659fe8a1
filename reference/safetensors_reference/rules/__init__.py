"""The rules, choices and fault codes of the format, as data."""
