"""Deliberately broken readers with one fault each, as proof that every case of the corpus can fail.

``correct`` contains small correct implementations that are independent of the reference: a reader of the
hardened profile, a slicer, a writer, a loader of checkpoints and a holder of an open file. The other modules
derive variants with one missing check or one changed step: as rows of ``VARIANTS``, or as classes that are
named and described by themselves. ``matrix`` records which cases catch which variant. A case that catches
none proves nothing; a variant that no case catches reveals a missing case.
"""
