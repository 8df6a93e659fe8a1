"""The atheris engine and its libFuzzer target."""

CANNOT_START = 2
"""Exit status of a target that cannot start, which is not a finding."""
INTERRUPTED = 72
"""Exit status of a target that received a signal, as in libFuzzer."""
