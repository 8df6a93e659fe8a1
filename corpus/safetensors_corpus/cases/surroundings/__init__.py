"""Covering sets: ordinary properties of a file in pairs, in valid files and around each fault.

``model`` defines the data structures. ``tensors``, ``strings``, ``numbers`` and ``tokens`` are four models,
each with the faults that are combined with its properties. ``sets`` reads the committed rows, and ``covered``
turns each row into a case. ``python -m tools.covering`` searches rows and writes ``docs/covering.md``.
"""
