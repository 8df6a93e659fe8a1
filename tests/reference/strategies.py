"""Random valid files, spelled in every legal way, and files with faults.

Hypothesis draws the tensors and shrinks them; spelling and faults come from a seeded ``Random``, which is
many times faster.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
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
Node = Any
"""JSON as bytes, an array as a list of nodes, or an object as a list of (key, node)."""


def is_object(node: Node) -> bool:
    return isinstance(node, list) and bool(node) and isinstance(node[0], tuple)


def render(node: Node, space: bytes) -> bytes:
    """Write a node, with ``space`` behind every token."""
    if isinstance(node, bytes):
        return node + space
    comma = b"," + space
    if is_object(node):
        pairs = (key + space + b":" + space + render(value, space) for key, value in node)
        return b"{" + space + comma.join(pairs) + b"}" + space
    return b"[" + space + comma.join(render(item, space) for item in node) + b"]" + space


def spell(rng: random.Random, text: str) -> bytes:
    """Spell a string in one of the ways that JSON allows."""
    way = rng.randrange(4)
    if way == 0:
        return json.dumps(text, ensure_ascii=False).encode()
    if way == 1:
        return json.dumps(text).encode()
    if way == 2:
        return json.dumps(text, ensure_ascii=False).replace("/", "\\/").encode()
    units = text.encode("utf-16-be")
    digits = rng.choice(("04x", "04X"))
    escapes = (f"\\u{int.from_bytes(units[i : i + 2], 'big'):{digits}}" for i in range(0, len(units), 2))
    return b'"' + "".join(escapes).encode() + b'"'


@dataclass(frozen=True)
class Model:
    """A generated file and what it was made to say: name -> (dtype, shape, begin, end), and the metadata."""

    tensors: dict[str, tuple[str, tuple[int, ...], int, int]]
    metadata: dict[str, str] | None
    tree: list[tuple[bytes, Node]]
    space: bytes
    padding: bytes
    data: bytes

    @property
    def header(self) -> bytes:
        body = render(self.tree, self.space) if self.tree else b"{" + self.space + b"}"
        # What stands behind the closing brace must be spaces (HDR-03), so the last separator goes.
        return (body.removesuffix(self.space) if self.space else body) + self.padding

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
        size = BITS[dtype]
        for dim in shape:
            size *= dim
        tensors[name] = (dtype, shape, position, position + size // 8)
        position += size // 8
    metadata = draw(metadata_maps)
    rng = draw(seeds)
    tree: list[tuple[bytes, Node]] = []
    for name, (dtype, shape, begin, end) in tensors.items():
        fields: list[tuple[bytes, Node]] = [
            (spell(rng, "dtype"), spell(rng, dtype)),
            (spell(rng, "shape"), [str(d).encode() for d in shape]),
            (spell(rng, "data_offsets"), [str(begin).encode(), str(end).encode()]),
        ]
        rng.shuffle(fields)
        tree.append((spell(rng, name), fields))
    rng.shuffle(tree)
    if metadata is not None:
        pairs: list[tuple[bytes, Node]] = [(spell(rng, k), spell(rng, v)) for k, v in metadata.items()]
        tree.insert(rng.randint(0, len(tree)), (spell(rng, "__metadata__"), pairs or b"{}"))
    padding = b" " * rng.randrange(10)
    return Model(tensors, metadata, tree, rng.choice(SPACES), padding, rng.randbytes(position))


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
