"""Runs over the corpus: cases asked and judged, results, baselines, versions."""
