"""Covering sets: ordinary properties of a file in pairs, in valid files and around each fault.

``model`` defines the terms for models; ``tensors``, ``strings``, ``numbers`` and ``tokens`` are four of them,
with the faults that are combined with their properties. ``sets`` reads the committed rows, and ``covered``
makes a case of each. ``python -m tools.covering`` searches rows and writes ``docs/covering.md``.
"""
