"""Faults of the layout: ranges against one another and against the end of the file (OFF-06 to OFF-12)."""

from __future__ import annotations

import random
from itertools import pairwise

from ..entries import Entry, entries, shift, some
from ..model import File, Obj, Value, copy
from ..registry import fault
from ..valid import entry_tree
from ..vocabulary import DTYPES, MAGIC


def _sound(file: File) -> list[Entry]:
    """Return the entries whose ranges lie in the data buffer, in the order of their bytes."""
    found = [e for e in entries(file) if e.begin <= e.end <= len(file.data)]
    return sorted(found, key=lambda e: (e.begin, e.end))


@fault("OFF-07", "OFF-12", "HDR-04")
def hole(rng: random.Random, file: File) -> bool:
    """Leave bytes before a tensor that belong to none."""
    found = _sound(file)
    if not found:
        return False
    entry = rng.choice((found[0], found[-1], rng.choice(found)))
    at = entry.begin
    gap = rng.choice((1, 1, 2, 3, 4, 7, 8, -at % 8 or 8, -at % 64 or 64, 4096))
    file.data = file.data[:at] + bytes(gap) + file.data[at:]
    shift(file, at, gap)
    return True


@fault("OFF-07", "OFF-09")
def hole_by_removal(rng: random.Random, file: File) -> bool:
    """Take an entry away and leave its bytes."""
    found = [e for e in _sound(file) if e.begin < e.end]
    if not found or type(file.root) is not Obj:
        return False
    entry = rng.choice(found)
    file.root.members = [m for m in file.root.members if m is not entry.member]
    return True


@fault("OFF-08", "FRM-01")
def trailing(rng: random.Random, file: File) -> bool:
    """Add bytes behind the last tensor."""
    tail = rng.choice(
        (b"\x00", b"\n", b"\x00" * 8, b"\x00" * 4096, *MAGIC, file.data[-1:] or b"x", file.render())
    )
    file.data += tail
    return file.raw is None


@fault("OFF-06", "LIM-05", "DAT-07")
def overlap_whole(rng: random.Random, file: File) -> bool:
    """Give a tensor just the range of another, with or without dropping its own bytes."""
    found = [e for e in _sound(file) if e.begin < e.end]
    if not found or type(file.root) is not Obj:
        return False
    entry = rng.choice(found)
    others = [e for e in found if e.member is not entry.member and e.end - e.begin == entry.end - entry.begin]
    if others and rng.random() < 0.4:
        rng.choice(others).move(entry.begin, entry.end)
        return True
    twin = [b'"alias%d"' % len(found), copy(entry.member[1])]
    file.root.members.insert(rng.choice((0, len(file.root.members))), twin)
    return True


@fault("OFF-06")
def overlap_partly(rng: random.Random, file: File) -> bool:
    """Move a range into the one before it; what follows moves along, so that no hole is left."""
    found = [e for e in _sound(file) if e.begin < e.end]
    later = [e for e in found if e.begin > 0]
    if not later:
        return False
    entry = rng.choice(later)
    by = min(rng.choice((1, 1, 2, 4, 8, entry.begin)), entry.begin)
    if rng.random() < 0.3:
        entry.move(entry.begin - by, entry.end - by)
    else:
        shift(file, entry.begin, -by)
        file.data = file.data[: len(file.data) - by]
    return True


@fault("OFF-06")
def overlap_inside(rng: random.Random, file: File) -> bool:
    """Add a tensor whose range lies inside another's."""
    found = [e for e in _sound(file) if e.end - e.begin >= 2]
    if not found or type(file.root) is not Obj:
        return False
    entry = rng.choice(found)
    begin = rng.choice((entry.begin, entry.begin + 1, rng.randrange(entry.begin, entry.end)))
    end = rng.choice(
        (entry.end, begin + 1, rng.randint(begin + 1, entry.end) if begin < entry.end else entry.end)
    )
    if begin >= end:
        return False
    row: list[Value] = [b'"inside%d"' % len(found), entry_tree(b"U8", [end - begin], begin, end)]
    file.root.members.insert(rng.choice((0, len(file.root.members))), row)
    return True


@fault("OFF-06", "OFF-07")
def ranges_swapped(rng: random.Random, file: File) -> bool:
    """Exchange the ranges of two tensors of different sizes, or move one elsewhere."""
    found = _sound(file)
    if len(found) < 2:
        return False
    first, second = rng.sample(found, 2)
    if rng.random() < 0.5 and first.end - first.begin != second.end - second.begin:
        size = first.end - first.begin
        first.move(second.begin, second.begin + size)
        return True
    old = (first.begin, first.end)
    first.move(second.begin, second.end)
    second.move(*old)
    return first.end - first.begin != second.end - second.begin


@fault("OFF-09")
def empty_tensor_misplaced(rng: random.Random, file: File) -> bool:
    """Put an empty tensor inside another, or behind the end of the data."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    inner = [e for e in _sound(file) if e.end - e.begin >= 2]
    size = len(file.data)
    spots = [size + 1, size + 8, 2**32, 2**64 - 1]
    spots += [rng.randrange(e.begin + 1, e.end) for e in inner] * 3
    at = rng.choice(spots)
    own = [e for e in entries(file) if e.begin == e.end]
    if own and rng.random() < 0.5:
        rng.choice(own).move(at, at)
    else:
        tree = entry_tree(rng.choice(DTYPES), list(rng.choice(((0,), (0, 2), (3, 0)))), at, at)
        file.root.members.insert(rng.choice((0, len(file.root.members))), [b'"nothing"', tree])
    return True


@fault("OFF-07", "OFF-05")
def first_tensor_late(rng: random.Random, file: File) -> bool:
    """Let the first range begin behind byte 0, as if offsets counted from somewhere else."""
    entry = some(rng, file)
    if entry is None:
        return False
    by = rng.choice((1, 8, len(file.header()), 8 + len(file.header())))
    for each in entries(file):
        each.move(each.begin + by, each.end + by)
    if rng.random() < 0.5:
        file.data = bytes(by) + file.data
    return True


@fault("OFF-05", "OFF-07", "OFF-06")
def boundary_moved(rng: random.Random, file: File) -> bool:
    """Move the boundary between two tensors: one grows by what the other loses."""
    found = [e for e in _sound(file) if e.begin < e.end]
    pairs = [(a, b) for a, b in pairwise(found) if a.end == b.begin]
    if not pairs:
        return False
    first, second = rng.choice(pairs)
    by = rng.choice((1, -1, 4, -4, 8, -8))
    if not first.begin <= first.end + by <= second.end:
        return False
    which = rng.randrange(3)
    if which != 1:
        first.move(first.begin, first.end + by)
    if which != 2:
        second.move(second.begin + by, second.end)
    return True
