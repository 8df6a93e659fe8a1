"""Completeness of the corpus: the share of one-token faults in the strict reader that it detects.

Each mutant is the explaining reader with one small fault. If the corpus does not detect a mutant, it would
not detect the same fault in a real reader. ``mutants.json`` contains the result, and ``survivors.toml`` gives
the reason for every mutant that survives. Run ``python -m proof.mutation`` from a checkout.
"""
