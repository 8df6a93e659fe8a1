"""How complete the corpus is: the share of one-token faults in the strict reader that it notices.

Each mutant is the explaining reader with one small fault. A corpus that lets such a reader through would let
a real reader with the same fault through. The measured result is ``mutants.json``; every mutant that
survives is listed with its reason in ``survivors.toml``. ``python -m proof.mutation``, run from a checkout.
"""
