"""The grammar as a generator of inputs: valid files, faults by rule, and mutations that target no rule."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from math import prod
from typing import TypeVar

from safetensors_corpus.features import FEATURES
from safetensors_corpus.features import vocabulary as words
from safetensors_corpus.features.tree import (
    Change,
    File,
    Mutation,
    NoPlaceError,
    Obj,
    Value,
    content,
    copy,
    entry_tree,
    framed,
    metadata_tree,
    mutation,
    one,
    pad,
    parse,
    size,
    some_leaf,
    trees,
    values,
)
from safetensors_corpus.features.vocabulary import BITS, DTYPES, NAMES, RESERVED

from .faults import FAULTS, header, tensors  # noqa: F401 - the imports register faults

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


_VARIATIONS = {mutation for feature in FEATURES.values() for mutation in feature.put_in}
MUTATIONS = tuple(sorted((*FAULTS, *_VARIATIONS), key=lambda m: m.name))
FAULTS_BY_RULE = {
    rule: tuple(m for m in MUTATIONS if not m.valid and rule in m.rules)
    for rule in sorted({rule for m in MUTATIONS if not m.valid for rule in m.rules})
}
ALLOWED = tuple(m for m in MUTATIONS if m.valid)
COMPANY = tuple(m for m in ALLOWED for _ in range(1 if m.rare else RARELY))
"""Variations for a file that may contain a fault."""
_WEIGHED = tuple(
    found for rule, found in FAULTS_BY_RULE.items() for _ in range(1 if rule.startswith(_EARLY) else 3)
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
            self.rng.choice(COMPANY).apply(self.rng, file)
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
            pick(rng, COMPANY).apply(rng, file)  # combine the fault with a variation
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
            mutation = pick(rng, GENERIC) if generic else pick(rng, pick(rng, _WEIGHED))
            if mutation.apply(rng, file):
                file.faults = (*file.faults, mutation.name)
                if len(file.faults) < MAX_FAULTS and rng.random() < TWICE and mutation.apply(rng, file):
                    file.faults = (*file.faults, mutation.name)
                return


_NUMBER = re.compile(rb"[0-9]+")
TOKENS = (
    *words.WORDS, *words.BAD_WORDS, *words.SPACES, *words.MAGIC, b"\x00", b"\\", b"\\u0000",
    b"__metadata__", b"F32", b"U8", b"dtype",
)  # fmt: skip


def flip_byte(rng: random.Random, file: File) -> bool:
    """Change one byte, usually in the header."""
    data = bytearray(file.render())
    if not data:
        return False
    end = min(len(data), 8 + len(file.header())) if rng.random() < 0.8 else len(data)
    at = rng.randrange(max(end, 1))
    data[at] = rng.choice((rng.randrange(256), data[at] ^ (1 << rng.randrange(8)), 0, 255))
    _reparse(file, bytes(data))
    return True


def insert_token(rng: random.Random, file: File) -> None:
    _edit(rng, file, rng.choice(TOKENS), 0)


def remove_bytes(rng: random.Random, file: File) -> None:
    _edit(rng, file, b"", rng.randint(1, 8))


def replace_bytes(rng: random.Random, file: File) -> None:
    _edit(rng, file, rng.choice(TOKENS), rng.randint(1, 4))


def repeat_stretch(rng: random.Random, file: File) -> None:
    at = one(rng, range(len(framed(file))))
    stretch = file.header()[at : at + rng.randint(1, 60)]
    _splice(file, at, at, stretch)


def change_number(rng: random.Random, file: File) -> None:
    match = one(rng, list(_NUMBER.finditer(framed(file))))
    old = int(match.group()[:20])
    new = rng.choice(
        (rng.choice(words.BIG), old + 1, max(old - 1, 0), old * 2, old + 8, 0, 1, len(file.data))
    )
    _splice(file, match.start(), match.end(), b"%d" % new)


def change_length(rng: random.Random, file: File) -> None:
    true = len(file.header())
    file.length = max(
        rng.choice((*words.LENGTHS, true + 1, true - 1, true // 2, 8, 0, true + len(file.data))), 0
    )


def cut_or_grow(rng: random.Random, file: File) -> bool:
    data = file.render()
    by = rng.randint(1, 16)
    _reparse(file, data[:-by] if rng.random() < 0.5 else data + rng.randbytes(by))
    return True


def move_value(rng: random.Random, file: File) -> None:
    """Exchange two values of the tree, or replace one with a copy of the other."""
    spots = values(file)
    if len(spots) < 2:
        raise NoPlaceError
    (first, i), (second, j) = rng.sample(spots, 2)
    if any(holder is second for holder, _ in values(File(first[i]))) or any(
        holder is first for holder, _ in values(File(second[j]))
    ):
        raise NoPlaceError
    if rng.random() < 0.5:
        first[i], second[j] = second[j], first[i]
    else:
        first[i] = copy(second[j])


def remove_or_repeat_part(rng: random.Random, file: File) -> None:
    """Remove a member or an item, or write it twice."""
    parts = one(rng, [tree.parts for tree in trees(file) if tree.parts])
    at = rng.randrange(len(parts))
    if rng.random() < 0.5:
        del parts[at]
    else:
        part = parts[at]
        parts.append([copy(half) for half in part] if type(part) is list else copy(part))


def other_word(rng: random.Random, file: File) -> None:
    holder, place, _ = some_leaf(rng, file)
    holder[place] = rng.choice(words.WORDS)


def _edit(rng: random.Random, file: File, token: bytes, drop: int) -> None:
    at = rng.randint(0, len(framed(file)))
    _splice(file, at, at + drop, token)


def _splice(file: File, start: int, end: int, token: bytes) -> None:
    old = file.header()
    new = old[:start] + token + old[end:]
    fresh = parse(len(new).to_bytes(8, "little") + new)
    file.root, file.padding = (fresh.root, fresh.padding) if fresh.raw is None else (new, b"")


def _reparse(file: File, data: bytes) -> None:
    fresh = parse(data)
    file.root, file.padding, file.data = fresh.root, fresh.padding, fresh.data
    file.length, file.raw = fresh.length, fresh.raw


_ALL: tuple[Change, ...] = (
    flip_byte, insert_token, remove_bytes, replace_bytes, repeat_stretch, change_number, change_length,
    cut_or_grow, move_value, remove_or_repeat_part, other_word,
)  # fmt: skip
GENERIC: tuple[Mutation, ...] = tuple(map(mutation, _ALL))
"""Generic mutations. ``MUTATIONS`` does not contain them, because they target no rule."""
