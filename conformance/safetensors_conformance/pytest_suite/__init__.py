"""The conformance suite as a pytest plugin."""
