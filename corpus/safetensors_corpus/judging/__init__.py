"""One judgement of an answer: the words, the comparison of contents, the verdict."""
