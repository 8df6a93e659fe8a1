"""Comparison of implementations on the same inputs, without verdicts."""
