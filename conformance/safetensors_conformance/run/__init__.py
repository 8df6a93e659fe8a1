"""Runs over the corpus: sessions, results, baselines."""
