"""Completeness of the corpus: the share of one-token faults in the strict reader that it detects.

Each mutant is the explaining reader with one small fault. A corpus that misses a mutant would miss the same
fault in a real reader. ``mutants.json`` contains the result; ``survivors.toml`` gives the reason for every
mutant that survives. ``python -m proof.mutation``, run from a checkout.
"""
