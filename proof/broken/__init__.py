"""Deliberately broken implementations with one fault each, which prove that every case can fail.

``correct`` contains small correct implementations that are independent of the reference: a reader of the
hardened profile, a slicer, a writer, a loader of checkpoints and a holder of an open file. The other modules
derive variants from them, each with one missing check or one changed step. A variant is either a row of
``VARIANTS`` or a class, whose name and docstring become the name and description of the variant. ``matrix``
records which cases detect which variant. A case that detects no variant proves nothing, and a variant that no
case detects reveals a missing case.
"""
