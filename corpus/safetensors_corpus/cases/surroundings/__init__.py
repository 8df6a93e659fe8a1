"""Covering sets: ordinary properties of a file combined two by two, alone and around each fault.

``model`` has the words for models; ``tensors``, ``strings``, ``numbers`` and ``tokens`` are four of them,
with the faults that are combined with their properties.
``sets`` reads the committed rows, ``covered`` makes a case of each.
``python -m tools.covering`` searches rows and writes ``docs/covering.md``.
"""
