"""Build, verify, count, show, copy and release the corpus."""
