"""Running implementations over the corpus: sessions, results, baselines, versions."""
