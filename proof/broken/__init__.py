"""Readers that are broken on purpose, one fault each: the proof that every case of the corpus can fail.

``correct`` holds small correct implementations that are independent of the reference: a reader of the
hardened profile, a slicer, a writer, a loader of checkpoints and a holder of an open file. The other
modules make variants of them with one check left out or one piece or step exchanged: as rows of
``VARIANTS``, or as classes that are named and described by themselves. ``matrix`` finds out which cases
catch which variant. A case that catches none proves nothing; a variant that no case catches shows a missing
case.
"""
