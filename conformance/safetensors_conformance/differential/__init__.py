"""Several implementations over the same inputs, nothing judged."""
