"""Judging answers: vocabulary, comparison of contents, verdicts."""
