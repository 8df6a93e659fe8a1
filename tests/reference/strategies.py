"""Random valid files, spelled in every legal way, and random breakages of them.

Hypothesis draws what matters (tensors, which breakages, raw bytes) and shrinks it; the spelling and the place
of a breakage come from a seeded ``Random``, which is many times faster.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from .naive import BITS

FEWER = settings(max_examples=settings().max_examples // 3)
"""For the tests whose examples take longest: a third of what the profile says."""
NAMES = (
    "",
    "a",
    "b",
    "a\x00",
    "\x01",
    "\x7f",
    "é",
    "e\u0301",
    "😀",
    "__metadata___",
    "__METADATA__",
    "../x",
    "-",
    '"',
    "\\",
)
DTYPES = sorted(BITS)
SPACES = (b"", b" ", b"\n\t", b"\r\n  ")
VALUES = (
    b"null", b"true", b"false", b"0", b"1", b"4", b"-1", b"-0", b"1.0", b"1e0", b"1E2", b"1e999",
    b"-1e999", b"18446744073709551615", b"18446744073709551616", b"4611686018427387904", b"9" * 40,
    b'""', b'"0"', b'"a"', b'"U8"', b'"F4"', b'"F6_E2M3"', b'"f32"', b'"F128"', b'"\\u00558"',
    b'"\\ud83d\\ude00"', b"[]", b"[0]", b"[0,0]", b"[0,1]", b"[1,0]", b"[0,0,0]", b"[[0]]",
    b"[4294967296,4294967296]", b"[0,18446744073709551615,2]", b"{}", b'{"a":"b"}', b'{"a":"b","a":"c"}',
    b'{"a":1}', b'{"U8":null}', b'{"dtype":"U8","shape":[0],"data_offsets":[0,0]}',
    b'{"dtype":"U8","shape":[1],"data_offsets":[0,1]}', b'["U8",[0],[0,0]]',
)  # fmt: skip
"""JSON values that are right in one place and wrong in another."""
KEYS = (
    b'"__metadata__"', b'"\\u005f_metadata__"', b'"dtype"', b'"shape"', b'"data_offsets"', b'"offsets"',
    b'"Dtype"', b'"a"', b'"\\u0061"', b'"x"', b'""',
)  # fmt: skip
SCRAPS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b" ", b"\t", b"\n", b"\x00", b"\x1f", b"\x7f",
    b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"NaN", b"-Infinity", b"nul", b"//", b"01",
    b"+1", b"0x1", b".5", b"1.", b"1e", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\x41"', b'"\\', b'"\\u12',
    b'"\x01"', b'"\xff"', b"\\", b"\\n", b"\\u0061",
)  # fmt: skip
"""Pieces that break the grammar in most places."""

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


def containers(node: Node) -> list[list[Node] | list[tuple[bytes, Node]]]:
    """All arrays and objects under ``node``, itself included."""
    if isinstance(node, bytes):
        return []
    out = [node]
    for item in node:
        out += containers(item[1] if isinstance(item, tuple) else item)
    return out


def _replace(rng: random.Random, box: list[Node], at: int, node: Node) -> None:
    old = box[at]
    box[at] = (old[0], node) if isinstance(old, tuple) else node


def change_value(rng: random.Random, box: list[Node], at: int) -> None:
    _replace(rng, box, at, rng.choice(VALUES))


def change_number(rng: random.Random, box: list[Node], at: int) -> None:
    old = box[at]
    if isinstance(old, bytes) and old.isdigit():
        near = (int(old) + 1, max(int(old) - 1, 0), int(old) * 2, 0, 2**32, 2**61, 2**63, 2**64 - 1, 2**64)
        box[at] = str(rng.choice(near)).encode()


def minus_zero(rng: random.Random, box: list[Node], at: int) -> None:
    """Spell a zero with a sign, which many parsers do not notice (SHP-02)."""
    zeros = [i for i, item in enumerate(box) if item == b"0"]
    if zeros:
        box[rng.choice(zeros)] = b"-0"


def change_key(rng: random.Random, box: list[Node], at: int) -> None:
    old = box[at]
    if isinstance(old, tuple):
        box[at] = (rng.choice(KEYS), old[1])


def change_dtype(rng: random.Random, box: list[Node], at: int) -> None:
    old = box[at]
    if isinstance(old, tuple) and isinstance(old[1], bytes):
        box[at] = (old[0], b'"%s"' % rng.choice(DTYPES).encode())


def drop(rng: random.Random, box: list[Node], at: int) -> None:
    del box[at]


def repeat(rng: random.Random, box: list[Node], at: int) -> None:
    box.insert(rng.randint(0, len(box)), box[at])


def add(rng: random.Random, box: list[Node], at: int) -> None:
    value = rng.choice(VALUES)
    box.insert(at, (rng.choice(KEYS), value) if isinstance(box[at], tuple) else value)


def swap(rng: random.Random, box: list[Node], at: int) -> None:
    other = rng.randrange(len(box))
    box[at], box[other] = box[other], box[at]


def scrap(rng: random.Random, box: list[Node], at: int) -> None:
    _replace(rng, box, at, rng.choice(SCRAPS))


Change = Callable[[random.Random, list[Node], int], None]
CHANGES: tuple[Change, ...] = (
    change_value, change_value, change_number, change_number, change_key, minus_zero, change_dtype, drop,
    repeat, add, swap, scrap,
)  # fmt: skip


def copy(node: Node) -> Node:
    if isinstance(node, bytes):
        return node
    return [(i[0], copy(i[1])) if isinstance(i, tuple) else copy(i) for i in node]


def nested(rng: random.Random) -> bytes:
    depth = rng.choice((3, 124, 125, 126, 127, 200, 5000))
    return b"[" * depth + b"]" * depth


def span(rng: random.Random, data: bytes) -> bytes:
    """Overwrite, insert or remove a byte."""
    at = rng.randint(0, len(data))
    piece = rng.choice((b"", rng.randbytes(1), rng.choice(SCRAPS)))
    return data[:at] + piece + data[at + rng.randint(0, 1) :]


def restructured(rng: random.Random, model: Model, changes: list[Change]) -> bytes:
    """Render the header after changes to its JSON."""
    tree = copy(model.tree)
    for change in changes:
        before = copy(tree)
        for _ in range(8):  # a change may find nothing to change where it is put
            box = rng.choice(containers(tree))
            if box:
                change(rng, box, rng.randrange(len(box)))
            if tree != before:
                break
    return (render(tree, model.space).removesuffix(model.space) if tree else b"{}") + model.padding


Parts = tuple[bytes, bytes, int | None]
"""Header, data, and the length prefix where it is not to be the true one."""


def reframed(rng: random.Random, way: int, header: bytes, data: bytes) -> Parts:
    """Change the text of the header, the data or the length prefix in one of seven ways, or in none."""
    lengths = (0, len(header) + 1, len(header) - 1, 10**8, 10**8 + 1, 2**63, 2**64 - 1)
    front = (b" ", b"\n", b"\xef\xbb\xbf", b"\x00", b"[")
    back = (b"\n", b"\t ", b"\x00", b"{}", b"\xef\xbb\xbf", b"x")
    change: dict[int, Callable[[], Parts]] = {
        1: lambda: (span(rng, header), data, None),
        2: lambda: (rng.choice(front) + header, data, None),
        3: lambda: (header + rng.choice(back), data, None),
        4: lambda: (header, data[: rng.randint(0, len(data))], None),
        5: lambda: (header, data + rng.randbytes(rng.randint(1, 3)), None),
        6: lambda: (header, data, rng.choice(lengths)),
        7: lambda: (rng.choice((b"{", b'{"n":', b'{"n":{"x":')) + nested(rng) + b"}", data, None),
    }
    return change.get(way, lambda: (header, data, None))()


change_lists: st.SearchStrategy[list[Change]] = st.lists(
    st.sampled_from(CHANGES), min_size=1, max_size=3
) | st.just([])
ways = st.integers(0, 18)
models_with_tensors = models(least=1)


@st.composite
def mutants(draw: DrawFn) -> bytes:
    """A valid file with a few changes; some of them leave it valid."""
    model = draw(models_with_tensors)
    rng = draw(seeds)
    changes = draw(change_lists)
    way = draw(ways)
    header, data, length = reframed(rng, way, restructured(rng, model, changes), model.data)
    file = (len(header) if length is None else length).to_bytes(8, "little") + header + data
    if way == 8:
        return span(rng, file)
    return file[: rng.randint(0, len(file))] if way == 9 else file
