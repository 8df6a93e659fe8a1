"""Judge answers: the vocabulary, the comparison of contents and the verdicts."""
