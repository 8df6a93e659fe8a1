"""Running implementations over the corpus: sessions, results and baselines."""
