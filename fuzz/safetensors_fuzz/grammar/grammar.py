"""The grammar as a generator of inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TypeVar

from safetensors_corpus.features import FEATURES
from safetensors_corpus.features.entries import content, entry_tree, metadata_tree, pad, size
from safetensors_corpus.features.feature import Mutation
from safetensors_corpus.features.tree import File, Obj, Value
from safetensors_corpus.features.vocabulary import BITS, DTYPES, NAMES, RESERVED

from .faults import FAULTS, entries, header, lists, tensors  # noqa: F401 - the imports register faults
from .faults.generic import GENERIC

T = TypeVar("T")


MAX_FAULTS = 2
"""Maximum number of faults in one input. With more faults, the cause of an answer would be unclear."""
GENERIC_SHARE = 0.12
"""Share of faults that come from generic mutations, which target no rule."""
TWICE = 0.05
"""Share of faults that are added to a file twice, possibly at the same place."""
POOL_SHARE = 0.3
"""Share of inputs that start from an earlier input."""
_ADVERSE = (0, 0, 1, 1, 1, 1, 1, 2)
_TRIES = 8
RARELY = 20
"""Frequency of an ordinary variation divided by that of a rare variation."""
BASES = 256
"""Number of valid files to keep for reuse. Generating a file takes five times as long as copying one."""
LARGEST = 96
"""Maximum size of a tensor in bytes. Small files reveal the same faults as large files and run faster."""
_COUNTS = (0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 6)
_DIMS = (0, 1, 1, 2, 2, 3, 4, 5, 8)
_RANKS = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5)
_EARLY = ("FRM-", "LIM-01", "HDR-01", "HDR-02", "HDR-03", "HDR-05", "HDR-06", "HDR-14", "HDR-15")
"""Rules whose violation stops a reader before the first entry. Faults target these rules less often."""


def pick(rng: random.Random, words: Sequence[T]) -> T:
    """Return a random word. ``choice`` is unbiased but slower, and only Hypothesis needs it."""
    if type(rng) is not random.Random:
        return rng.choice(words)
    return words[int(rng.random() * len(words))]


def small_shape(rng: random.Random, dtype: bytes) -> list[int]:
    while True:
        shape = [pick(rng, _DIMS) for _ in range(pick(rng, _RANKS))]
        count = size(dtype, shape)
        if count is not None and count <= LARGEST:
            return shape


def valid_file(rng: random.Random) -> File:
    """Return a valid file with up to six small tensors. Most files are spelled as plainly as possible."""
    file = File(Obj([]))
    assert type(file.root) is Obj
    rows: list[list[Value]] = file.root.members
    data = bytearray()
    count = pick(rng, _COUNTS)
    for name in (
        rng.sample(NAMES, count) if rng.random() < 0.5 else (b"t%d" % number for number in range(count))
    ):
        dtype = pick(rng, DTYPES) if rng.random() < 0.7 else b"F32"
        shape = small_shape(rng, dtype)
        count = prod(shape) * BITS[dtype] // 8
        rows.append([b'"%b"' % name, entry_tree(dtype, shape, len(data), len(data) + count)])
        data += content(rng, dtype, count)
    if len(rows) > 1 and rng.random() < 0.4:
        rng.shuffle(rows)  # the order of the header is not significant (HDR-17)
    if rng.random() < 0.35:
        rows.insert(rng.choice((0, len(rows))), [RESERVED, metadata_tree(rng)])
    file.data = bytes(data)
    padding = rng.random()
    if padding < 0.3:
        pad(file)
    elif padding < 0.6:
        file.padding = b" " * int(rng.random() * 9)
    return file


@cache
def mutations() -> tuple[Mutation, ...]:
    variations = {mutation for feature in FEATURES.values() for mutation in feature.put_in}
    return tuple(sorted((*FAULTS, *variations), key=lambda m: m.name))


@cache
def faults_by_rule() -> dict[str, tuple[Mutation, ...]]:
    rules = sorted({rule for m in mutations() if not m.valid for rule in m.rules})
    return {rule: tuple(m for m in mutations() if not m.valid and rule in m.rules) for rule in rules}


@cache
def allowed() -> tuple[Mutation, ...]:
    return tuple(m for m in mutations() if m.valid)


@cache
def company() -> tuple[Mutation, ...]:
    return tuple(m for m in allowed() for _ in range(1 if m.rare else RARELY))


@cache
def _weighed() -> tuple[tuple[Mutation, ...], ...]:
    return tuple(
        found for rule, found in faults_by_rule().items() for _ in range(1 if rule.startswith(_EARLY) else 3)
    )


class Grammar:
    """A generator of inputs. The random generator determines its output."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._bases: list[File] = []
        self._given = 0

    def fresh(self) -> File:
        file = valid_file(self.rng)
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            self.rng.choice(company()).apply(self.rng, file)
        return file

    def base(self) -> File:
        """Return a valid file. The caller must not change it. Most calls reuse an earlier file."""
        self._given += 1
        if len(self._bases) < BASES or self._given % 4 == 0:
            file = self.fresh()
            if len(self._bases) < BASES:
                self._bases.append(file)
            else:
                self._bases[self._given // 4 % BASES] = file
            return file
        return pick(self.rng, self._bases)

    def input(self, pool: Sequence[File] = ()) -> File:
        """Return an input with at most ``MAX_FAULTS`` faults. The caller must not change the input."""
        rng = self.rng
        file = pick(rng, pool) if pool and rng.random() < POOL_SHARE else self.base()
        more = min(pick(rng, _ADVERSE), MAX_FAULTS - len(file.faults))
        if more <= 0 and not file.faults:
            return file  # an unchanged file need not be copied
        file = file.copy()
        for _ in range(more):
            self.break_one(file)
        if file.faults and rng.random() < 0.15:
            pick(rng, company()).apply(rng, file)  # combine the fault with a variation
        return file

    def alone(self) -> File:
        """Return an input that does not depend on earlier ones."""
        file = self.fresh()
        for _ in range(pick(self.rng, _ADVERSE)):
            self.break_one(file)
        return file

    def break_one(self, file: File) -> None:
        """Add one fault or, rarely, the same fault twice.

        A rule's probability does not depend on the number of mutations that target it.
        """
        rng = self.rng
        for _ in range(_TRIES if len(file.faults) < MAX_FAULTS else 0):
            generic = rng.random() < GENERIC_SHARE
            mutation = pick(rng, GENERIC) if generic else pick(rng, pick(rng, _weighed()))
            if mutation.apply(rng, file):
                file.faults = (*file.faults, mutation.name)
                if len(file.faults) < MAX_FAULTS and rng.random() < TWICE and mutation.apply(rng, file):
                    file.faults = (*file.faults, mutation.name)
                return
