"""Covering sets: pairs of ordinary properties of a file, in valid files and around each fault.

``model`` defines the data structures. ``tensors``, ``strings``, ``numbers``, ``tokens`` and ``lists`` are
five models, and each contains the faults to combine with its properties. ``sets`` reads the committed rows,
and ``covered`` turns each row into a case. ``python -m tools.covering`` searches for rows and writes
``docs/covering.md``.
"""
