"""libFuzzer through atheris: a target in a process of its own, led by an engine."""
