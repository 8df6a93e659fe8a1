"""A libFuzzer mutator that applies the grammar to byte strings and caches their trees."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

from ...grammar.entries import entries, values
from ...grammar.grammar import MAX_FAULTS, Grammar, company
from ...grammar.model import EARLIER, File, Obj, copy, parse
from ...grammar.valid import pick
from ...grammar.variations import GENERIC

Native = Callable[[bytes, int], bytes]
"""libFuzzer's own mutation of bytes, which uses the dictionary and recorded comparisons."""
CACHE = 4096
"""Maximum number of cached trees. libFuzzer mutates the same inputs repeatedly, so most trees are reused."""
FRESH_SHARE = 0.2
"""Share of outputs that start from a valid file of the grammar instead of libFuzzer's input."""
NATIVE_SHARE = 0.06
"""Share of outputs that come from byte mutations, which seldom produce valid JSON."""
_TRIES = 4
_MODEST = 1 << 16
"""Limit on offsets and sizes in a file. Below it, no mutation can create a huge data buffer."""


class Mutator:
    """Mutates inputs with the grammar. Each output has at most ``MAX_FAULTS`` faults."""

    def __init__(self, native: Native | None = None, *, cache: int = CACHE) -> None:
        self._rng = random.Random(0)  # noqa: S311 - reproducible on purpose
        self._grammar = Grammar(self._rng)
        self._native = native
        self._most = cache
        self._trees: dict[bytes, File] = {}

    def mutate(self, data: bytes, max_size: int, seed: int) -> bytes:
        rng = self._rng
        super(random.Random, rng).seed(seed)
        roll = rng.random()
        if self._native is not None and roll < NATIVE_SHARE:
            return self._native(data, max_size)[:max_size]
        if roll < NATIVE_SHARE + FRESH_SHARE:
            return self._fitting(self._grammar.input(), max_size)
        return self._fitting(self._changed(self.tree(data)), max_size)

    def cross(self, data: bytes, other: bytes, max_size: int, seed: int) -> bytes:
        rng = self._rng
        super(random.Random, rng).seed(seed)
        first, second = self.tree(data), self.tree(other)
        crossed = _CROSSINGS[int(rng.random() * len(_CROSSINGS))](rng, first, second)
        if crossed is None:
            crossed = self._changed(first)
        return self._fitting(crossed, max_size)

    def known(self, data: bytes) -> File | None:
        return self._trees.get(data)

    def tree(self, data: bytes) -> File:
        file = self._trees.get(data)
        if file is None:
            file = parse(data)
            file.faults = EARLIER
            self._remember(data, file)
        return file

    def _changed(self, original: File) -> File:
        """Return a copy with one more fault, or with variations if the file already has enough faults."""
        rng, grammar = self._rng, self._grammar
        room = MAX_FAULTS - len(original.faults)
        if room <= 0 and rng.random() < 0.5:
            return grammar.input()
        file = original.copy()
        try:
            if original.modest is None:
                original.modest = all(
                    max(entry.begin, entry.end, prod(entry.shape)) <= _MODEST for entry in entries(original)
                )
            if not original.modest:
                pick(rng, GENERIC).apply(rng, file)
                file.faults = (*file.faults, "generic")[:MAX_FAULTS]
            elif room > 0 and rng.random() < 0.7:
                grammar.break_one(file)
            else:
                for _ in range(_TRIES):
                    if pick(rng, company()).apply(rng, file):
                        break
        except (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError):
            # The mutations expect files of the grammar, but this file may contain anything.
            return grammar.input()
        return file

    def _fitting(self, file: File, max_size: int) -> bytes:
        data = file.render()
        for _ in range(_TRIES):
            if 0 < len(data) <= max_size:
                break
            file = self._grammar.input()
            data = file.render()
        if not 0 < len(data) <= max_size:
            return data[:max_size] or b"\0"  # every file of the grammar is longer than this
        self._remember(data, file)
        return data

    def _remember(self, data: bytes, file: File) -> None:
        cached = self._trees.get(data)
        if cached is not None and len(cached.faults) <= len(file.faults):
            return  # the mutation had no effect
        if len(self._trees) >= self._most:
            del self._trees[next(iter(self._trees))]
        self._trees[data] = file


Crossing = Callable[[random.Random, File, File], File | None]
"""Combines two files without changing them. Returns None if they cannot be combined."""


def _join(rng: random.Random, file: File, other: File) -> File | None:
    if type(file.root) is not Obj or type(other.root) is not Obj or file.raw is not None:
        return None
    if len(file.faults) + len(other.faults) > MAX_FAULTS or other.raw is not None:
        return None
    file, guest = file.copy(), other.copy()
    assert type(file.root) is Obj
    assert type(guest.root) is Obj
    names = {member[0] for member in file.root.members if type(member[0]) is bytes}
    by = len(file.data)
    for entry in entries(guest):
        entry.move(entry.begin + by, entry.end + by)
    rows = [m for m in guest.root.members if m[0] not in names]
    if len(rows) < len(guest.root.members):
        # the data of the omitted tensors no longer belongs to any tensor
        file.faults = (*file.faults, "crossed")
    file.root.members = rows + file.root.members if rng.random() < 0.3 else file.root.members + rows
    file.data += guest.data
    file.length = None
    file.faults = (*file.faults, *guest.faults)[:MAX_FAULTS]
    return file


def _graft(rng: random.Random, file: File, other: File) -> File | None:
    if len(file.faults) >= MAX_FAULTS:
        return None
    file = file.copy()
    into, out_of = values(File(file.root)), values(File(other.root))
    if not into or not out_of:
        return None
    holder, place = pick(rng, into)
    source, at = pick(rng, out_of)
    holder[place] = copy(source[at])
    file.faults = (*file.faults, "crossed")
    return file


def _dress(rng: random.Random, file: File, other: File) -> File | None:  # noqa: ARG001
    if file.raw is not None or other.raw is not None or len(file.faults) >= MAX_FAULTS:
        return None
    file = file.copy()
    file.padding, file.length = other.padding, other.length
    file.faults = (*file.faults, "crossed")
    return file


_CROSSINGS: tuple[Crossing, ...] = (_join, _join, _join, _graft, _graft, _dress)
