"""Random valid files, spelled in every legal way, and files with faults.

Hypothesis draws the tensors and shrinks them; spelling and faults come from a seeded ``Random``, which is
many times faster.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from safetensors_fuzz.grammar.grammar import Grammar

from .naive import BITS

FEWER = settings(max_examples=settings().max_examples // 3)
"""For the tests whose examples take longest: a third of what the profile says."""
NAMES = (
    "", "a", "b", "a\x00", "\x01", "\x7f", "é", "e\u0301", "😀", "__metadata___", "__METADATA__",
    "../x", "-", '"', "\\",
)  # fmt: skip
DTYPES = sorted(BITS)
SPACES = (b"", b" ", b"\n\t", b"\r\n  ")


def listed(brackets: bytes, parts: Iterable[bytes], space: bytes) -> bytes:
    """Write an object or an array, with ``space`` behind every token."""
    return brackets[:1] + space + (b"," + space).join(parts) + brackets[1:] + space


def spell(rng: random.Random, text: str) -> bytes:
    """Spell a string in one of the ways that JSON allows."""
    way = rng.randrange(4)
    if way < 3:
        written = json.dumps(text, ensure_ascii=way == 1)
        return (written.replace("/", "\\/") if way == 2 else written).encode()
    units = text.encode("utf-16-be")
    digits = rng.choice(("04x", "04X"))
    escapes = (f"\\u{int.from_bytes(units[i : i + 2], 'big'):{digits}}" for i in range(0, len(units), 2))
    return b'"' + "".join(escapes).encode() + b'"'


@dataclass(frozen=True)
class Model:
    """A generated file and what it was made to say: name -> (dtype, shape, begin, end), and the metadata."""

    tensors: dict[str, tuple[str, tuple[int, ...], int, int]]
    metadata: dict[str, str] | None
    header: bytes
    data: bytes

    @property
    def file(self) -> bytes:
        return len(self.header).to_bytes(8, "little") + self.header + self.data


# Built once: making a strategy takes longer than drawing from it.
names = (st.sampled_from(NAMES) | st.text(max_size=5)).filter(lambda name: name != "__metadata__")
name_lists = {least: st.lists(names, unique=True, min_size=least, max_size=3) for least in (0, 1)}
metadata_maps = st.none() | st.dictionaries(names, st.text(max_size=4), max_size=2)
dtypes = st.sampled_from(DTYPES)
shapes = st.lists(st.integers(0, 3), max_size=3)
seeds = st.integers(0, 2**32 - 1).map(random.Random)


@st.composite
def models(draw: DrawFn, least: int = 0) -> Model:
    """A valid file: tensors in any header order, fields in any order, any whitespace and any padding."""
    tensors: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
    position = 0
    for name in draw(name_lists[least]):
        dtype = draw(dtypes)
        shape = tuple(draw(shapes))
        if BITS[dtype] % 8:
            shape = (4, *shape) if len(name) % 2 else (*shape, 8)
        end = position + prod(shape) * BITS[dtype] // 8
        tensors[name] = (dtype, shape, position, end)
        position = end
    metadata = draw(metadata_maps)
    rng = draw(seeds)
    space = rng.choice(SPACES)

    def pair(key: str, value: bytes) -> bytes:
        return spell(rng, key) + space + b":" + space + value

    rows: list[bytes] = []
    for name, (dtype, shape, *span) in tensors.items():
        numbers = ([b"%d" % number + space for number in part] for part in (shape, span))
        arrays = (listed(b"[]", part, space) for part in numbers)
        fields = [
            pair("dtype", spell(rng, dtype) + space),
            *(pair(field, array) for field, array in zip(("shape", "data_offsets"), arrays, strict=True)),
        ]
        rng.shuffle(fields)
        rows.append(pair(name, listed(b"{}", fields, space)))
    rng.shuffle(rows)
    if metadata is not None:
        pairs = [pair(key, spell(rng, value) + space) for key, value in metadata.items()]
        rows.insert(rng.randint(0, len(rows)), pair("__metadata__", listed(b"{}", pairs, space)))
    # What stands behind the closing brace must be spaces (HDR-03), so the last separator goes.
    header = listed(b"{}", rows, space).removesuffix(space) + b" " * rng.randrange(10)
    return Model(tensors, metadata, header, rng.randbytes(position))


def broken(rng: random.Random) -> bytes:
    """A file with up to two faults of the grammar, and sometimes a byte changed or the end missing."""
    file = Grammar(rng).alone().render()
    at, way = rng.randint(0, len(file)), rng.randrange(8)
    if way:
        return file if way > 1 else file[:at]
    piece = rng.choice((b"", rng.randbytes(1), rng.choice(b'{}[],:"\\0 \0\xff').to_bytes()))
    return file[:at] + piece + file[at + rng.randint(0, 1) :]


def mutants() -> st.SearchStrategy[bytes]:
    return seeds.map(broken)


def json_values(keys: st.SearchStrategy[str], leaves: int = 8) -> st.SearchStrategy[Any]:
    """JSON values of all types; a string holds no surrogates."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        scalars | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=leaves,
    )
