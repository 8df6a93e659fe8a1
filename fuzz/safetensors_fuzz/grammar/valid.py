"""Valid files, from which all other inputs are derived."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import TypeVar

from safetensors_corpus.features.entries import numbers, size
from safetensors_corpus.features.tree import File, Obj, Value
from safetensors_corpus.features.vocabulary import BITS, DTYPES, META_KEYS, META_VALUES, NAMES, RESERVED

T = TypeVar("T")
LARGEST = 96
"""Maximum size of a tensor in bytes. Small files reveal the same faults as large files and run faster."""
_COUNTS = (0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 6)
_DIMS = (0, 1, 1, 2, 2, 3, 4, 5, 8)
_RANKS = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5)


def valid_file(rng: random.Random) -> File:
    """Return a valid file with up to six small tensors. Most files have the plainest spelling."""
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


def pick(rng: random.Random, words: Sequence[T]) -> T:
    """Return a random word. ``choice`` favours no word but is slower, and only Hypothesis needs it."""
    if type(rng) is not random.Random:
        return rng.choice(words)
    return words[int(rng.random() * len(words))]


def entry_tree(dtype: bytes, shape: list[int], begin: int, end: int) -> Obj:
    fields: list[list[Value]] = [[b'"dtype"', b'"%b"' % dtype], [b'"shape"', numbers(*shape)]]
    return Obj([*fields, [b'"data_offsets"', numbers(begin, end)]])


def metadata_tree(rng: random.Random) -> Obj:
    keys = rng.sample(META_KEYS, rng.choice((0, 1, 1, 2, 3)))
    decoded = {key.replace(b"\\u0041", b"A"): key for key in keys}  # decoded keys must be distinct (HDR-13)
    return Obj([[b'"%b"' % key, b'"%b"' % rng.choice(META_VALUES)] for key in decoded.values()])


def small_shape(rng: random.Random, dtype: bytes) -> list[int]:
    while True:
        shape = [pick(rng, _DIMS) for _ in range(pick(rng, _RANKS))]
        count = size(dtype, shape)
        if count is not None and count <= LARGEST:
            return shape


def content(rng: random.Random, dtype: bytes, count: int) -> bytes:
    """Return random data for a tensor. BOOL tensors contain only zeros and ones (DAT-05)."""
    data = rng.randbytes(count)
    return bytes(b & 1 for b in data) if dtype == b"BOOL" else data


def pad(file: File) -> None:
    """Pad the header with spaces to a multiple of eight bytes, as most writers do (WRT-02)."""
    file.padding = b" " * (-len(file.header()) % 8)
