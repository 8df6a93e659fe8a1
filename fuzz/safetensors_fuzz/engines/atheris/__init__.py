"""The atheris engine and its libFuzzer target."""

CANNOT_START = 2
"""Exit status of a target that cannot start. It does not count as a finding."""
