"""Readers that are broken on purpose, one fault each: the proof that every case of the corpus can fail.

``small_reader`` is a correct reader of the hardened profile, independent of the reference. The other modules
make variants of it with one check left out or one piece exchanged, and ``matrix`` finds out which cases catch
which variant. A case that catches none proves nothing; a variant that no case catches shows a missing case.
"""
