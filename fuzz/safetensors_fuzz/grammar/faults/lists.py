"""Faults at one position in a long list of tensors."""

from __future__ import annotations

import random

from safetensors_corpus.features.entries import NoPlaceError, entry_of, entry_tree, whole
from safetensors_corpus.features.tree import File, Value

from . import fault

TOTALS = (16, 17, 64, 65, 100, 101, 256, 257, 257, 300, 1001)
"""Numbers of tensors in a file, near the sizes of tables and the limits of counters."""


@fault("OFF-05", "OFF-06", "OFF-07")
def one_of_many(rng: random.Random, file: File) -> None:
    """Add many one-byte tensors, including one with a fault."""
    found, rows = whole(file)
    begin, count = len(file.data), rng.choice(TOTALS) - len(found)
    if len(found) > 8 or any(entry.begin > entry.end for entry in found):
        raise NoPlaceError
    at = rng.choice((0, 1, count // 2, count - 2, count - 1, count - 1, rng.randrange(count)))
    how = rng.choice(("hole", "overlap", "size", "dtype", "name"))
    moved = {"hole": 1, "overlap": -1}.get(how, 0)
    if begin + at + moved < 0:
        raise NoPlaceError
    more: list[list[Value]] = []
    for index in range(count):
        place = begin + index + moved * (index >= at)
        more.append([b'"h%d"' % index, entry_tree(b"U8", [1], place, place + 1)])
    entry = entry_of(more[at])
    assert entry is not None
    if how == "size":
        entry.reshape([2])
    elif how == "dtype":
        entry.retype(b"U7")
    elif how == "name":
        more[at][0] = more[rng.choice([other for other in (0, at - 1, count - 1) if other % count != at])][0]
    if rng.random() < 0.3:
        more.reverse()
    elif rng.random() < 0.3:
        more = more[count // 2 :] + more[: count // 2]
    rows += more
    file.data += rng.randbytes(count + moved)
