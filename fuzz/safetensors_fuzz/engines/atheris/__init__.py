"""The atheris engine, and the libFuzzer target that it runs."""

CANNOT_START = 2
"""Exit status of the target when it cannot do what it was asked, which is no finding."""
INTERRUPTED = 72
"""Exit status of the target after a signal, as libFuzzer has it."""
