"""From an answer to a verdict, and to the words in which it is told."""
