"""For each feature of valid files what a reader is like that refuses it, told without the feature's own code.

A test is given the bytes of the header object, what the header says and the data; it looks for the feature
with means of its own. The rule stands here a second time, as a person would look it up in the rule book.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import prod

from safetensors_corpus.author.file import FileBuilder
from safetensors_fuzz.grammar.grammar import Grammar
from safetensors_reference import DTYPE_BITS, Header, TensorInfo, explain

Tensors = Callable[[TensorInfo], object]
Texts = Callable[[str], object]


@dataclass(frozen=True)
class Seen:
    """A valid file as a fake sees it."""

    text: bytes
    header: Header
    data: bytes

    @property
    def file(self) -> bytes:
        return len(self.text).to_bytes(8, "little") + self.text + self.data

    @property
    def tree(self) -> bytes:
        return self.text.rstrip(b" ")

    @property
    def padding(self) -> int:
        return len(self.text) - len(self.tree)

    @property
    def names(self) -> list[str]:
        return list(self.header.tensors)

    @property
    def tensors(self) -> list[TensorInfo]:
        return list(self.header.tensors.values())

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.header.metadata or {}

    @property
    def texts(self) -> list[str]:
        return [text for pair in self.metadata.items() for text in pair]

    @property
    def members(self) -> list[str]:
        """Keys of the header object, the metadata too, in their order."""
        return list(json.loads(self.text))

    def of(self, *places: str) -> list[bytes]:
        """Every string of these places: ``reserved``, ``metadata``, ``name``, ``field`` or ``dtype``."""
        out, depth, inside = [], 0, False
        for token in re.findall(STRING + rb"|[{}]", self.text):
            depth += (token == b"{") - (token == b"}")
            if token in (b"{", b"}"):
                continue
            if depth == 1:
                inside = json.loads(token.decode()) == "__metadata__"
                place = "reserved" if inside else "name"
            elif inside:
                place = "metadata"
            else:
                place = (
                    "field" if json.loads(token.decode()) in ("dtype", "shape", "data_offsets") else "dtype"
                )
            if place in places:
                out.append(token)
        return out

    def holds(self, tensor: TensorInfo) -> bytes:
        return self.data[tensor.begin : tensor.end]


@lru_cache(4096)
def seen(data: bytes) -> Seen:
    header = explain(data, "hardened").header
    assert header is not None
    return Seen(data[8 : header.data_start], header, data[header.data_start :])


Refuses = Callable[[Seen], object]
STRING = rb'"(?:[^"\\]|\\.)*"'


def _name(holds: Texts) -> Refuses:
    return lambda s: any(map(holds, s.names))


def _text(holds: Texts) -> Refuses:
    return lambda s: any(map(holds, s.texts))


def _tensor(holds: Tensors) -> Refuses:
    return lambda s: any(map(holds, s.tensors))


def _bytes(holds: Callable[[TensorInfo, bytes], object]) -> Refuses:
    return lambda s: any(holds(tensor, s.holds(tensor)) for tensor in s.tensors)


def _packed(holds: Callable[[tuple[int, ...]], object]) -> Refuses:
    return _tensor(lambda t: t.bits % 8 and holds(t.shape))


def _raw(pattern: bytes, *places: str) -> Refuses:
    return lambda s: any(re.search(pattern, raw) for raw in s.of(*places))


def _odd_order(s: Seen) -> bool:
    entries = [value for name, value in json.loads(s.text).items() if name != "__metadata__"]
    return any(list(entry) != ["dtype", "shape", "data_offsets"] for entry in entries)


def _folded(name: str) -> str:
    return name.casefold().replace("e\u0301", "\u00e9")


def _same_offset(s: Seen) -> bool:
    return any(a.begin == a.end == b.begin == b.end for a, b in pairwise(s.header.in_offset_order()))


def _unaligned(s: Seen) -> bool:
    start = 8 + len(s.text)
    return any((start + t.begin) % max(t.bits // 8, 1) for t in s.tensors if t.end > t.begin)


NEEDLESS = rb"(?<!\\)(\\\\)*(\\/|\\u(?!00[01])(?!0022)(?!005[cC]))"
FREE = ("name", "metadata")
MAGIC = (b"PK", b"GG", b"\x80\x02", b"\x1f\x8b")
CODE = ("constructor", "shape")

FAKES: dict[str, tuple[str, Refuses]] = {
    "an escape in a dtype": ("DTY-04", _raw(rb"\\", "dtype")),
    "an escape in the name of a field": ("HDR-10", _raw(rb"\\", "field")),
    "an escape in the key __metadata__": ("MET-06", _raw(rb"\\", "reserved")),
    "fields in an unusual order": ("ENT-06", _odd_order),
    "whitespace between tokens": ("HDR-08", lambda s: re.search(rb"\s", re.sub(STRING, b"", s.tree))),
    "8 or more spaces after the header object": ("HDR-03", lambda s: s.padding > 7),
    "spaces after the header object": ("HDR-03", lambda s: s.padding > 0),
    "a header whose length is not a multiple of 8": ("FRM-08", lambda s: len(s.text) & 7),
    "an escape of two characters, such as \\n": ("HDR-15", _raw(rb"\\[^u]", *FREE)),
    "an escaped character that does not need an escape": ("HDR-15", _raw(NEEDLESS, *FREE)),
    "a control character in a name": ("ENT-08", _name(lambda n: min(n, default="~") < " ")),
    "a quote or backslash in a name": ("ENT-08", _name(lambda n: set(n) & set('"\\'))),
    "names that differ only in case or Unicode normal form": (
        "HDR-19",
        lambda s: len(set(map(_folded, s.names))) < len(s.names),
    ),
    "non-ASCII names": ("ENT-08", _name(lambda n: not n.isascii())),
    "a tensor with an empty name": ("ENT-07", _name(lambda n: n == "")),
    "a long name": ("ENT-10", _name(lambda n: len(n) >= 61)),
    "a name similar to __metadata__": (
        "MET-05",
        _name(lambda n: "metadata" in n.lower().replace("_", "")),
    ),
    "a name that looks like a path, a number, a pattern or code": (
        "ENT-09",
        _name(lambda n: "/" in n or n.startswith("__") or n in CODE),
    ),
    "a name with dots": ("ENT-09", _name(lambda n: "." in n)),
    "a name with characters other than letters, digits and underscores": (
        "ENT-08",
        _name(lambda n: set(n) & set(" -")),
    ),
    "a control character in the metadata": ("MET-04", _text(lambda t: min(t, default="~") < " ")),
    "a quote or backslash in the metadata": ("MET-04", _text(lambda t: set(t) & set('"\\'))),
    "non-ASCII metadata": ("MET-04", _text(lambda t: not t.isascii())),
    "an empty string in the metadata": ("MET-04", _text(lambda t: t == "")),
    "a metadata key that is also the name of an entry field": (
        "MET-07",
        lambda s: {"dtype", "shape", "data_offsets"} & set(s.metadata),
    ),
    "the key format in the metadata": ("MET-09", lambda s: "format" in s.metadata),
    "a long string in the metadata": ("MET-10", _text(lambda t: len(t) >= 61)),
    "a metadata string with characters other than letters, digits, dots and underscores": (
        "MET-04",
        _text(lambda t: set(t) & set("{ ")),
    ),
    "several keys in the metadata": ("MET-10", lambda s: len(s.metadata) > 1),
    "an empty metadata map": ("MET-03", lambda s: s.header.metadata == {}),
    "an escape in a name or in the metadata": ("HDR-15", _raw(rb"\\", *FREE)),
    "metadata": ("MET-01", lambda s: s.header.metadata is not None),
    "a BOOL byte other than 0 and 1": (
        "DAT-05",
        _bytes(lambda t, data: t.dtype == "BOOL" and max(data, default=0) > 1),
    ),
    "data that begins with the magic bytes of another format": (
        "FRM-10",
        _bytes(lambda _, data: data[:2] in MAGIC),
    ),
    "a data byte other than 0": ("DAT-04", lambda s: max(s.data, default=0)),
    "an empty tensor with a large dimension": (
        "SHP-08",
        _tensor(lambda t: 0 in t.shape and max(t.shape) > 999),
    ),
    "several empty tensors at the same offset": ("OFF-10", _same_offset),
    "an empty tensor after other tensors": ("OFF-09", _tensor(lambda t: t.begin == t.end > 0)),
    "a tensor of zero bytes": ("SHP-04", _tensor(lambda t: t.begin == t.end)),
    "a scalar": ("SHP-03", _tensor(lambda t: t.shape == ())),
    "a packed tensor with an odd last dimension": ("DTY-12", _packed(lambda shape: shape[-1] & 1)),
    "a packed tensor whose number of elements is not a multiple of 8": (
        "DTY-09",
        _packed(lambda shape: prod(shape) & 7),
    ),
    "a dimension of size 1 among others": ("SHP-11", _tensor(lambda t: 1 in t.shape and t.shape != (1,))),
    "several dimensions": ("SHP-10", _tensor(lambda t: len(t.shape) > 1)),
    "a tensor of more than 64 bytes": ("SHP-09", _tensor(lambda t: t.end - t.begin > 64)),
    "a tensor that does not begin at a multiple of its element size": ("OFF-11", _unaligned),
    "entries in a different order than the data": (
        "HDR-17",
        lambda s: (
            [n for n in s.members if n != "__metadata__"] != [t.name for t in s.header.in_offset_order()]
        ),
    ),
    "metadata that is not the first member": ("HDR-17", lambda s: "__metadata__" in s.members[1:]),
    "no tensors": ("FRM-09", lambda s: not s.names),
    "many tensors": ("ENT-11", lambda s: len(s.names) > 4),
    "tensors with different dtypes": ("API-04", lambda s: len({t.dtype for t in s.tensors}) > 1),
    "a second tensor": ("ENT-11", lambda s: len(s.names) > 1),
}
"""What a feature is called -> its rule, and whether a reader that does not take it refuses a file."""


def _of_dtype(dtype: str) -> Refuses:
    return _tensor(lambda t: t.dtype == dtype)


FAKES |= {f"dtype {dtype}": ("DTY-05", _of_dtype(dtype)) for dtype in DTYPE_BITS if dtype != "F32"}


def rare() -> list[bytes]:
    """Files with features that the grammar seldom makes, or only where a profile settles a choice."""
    odd, large, alike, long = FileBuilder(), FileBuilder(), FileBuilder(), FileBuilder()
    odd.tensor("w", "BOOL", [2], b"\1\2")
    large.tensor("w", "F32", [0, 65536])
    alike.tensor("W", "F32", [1])
    alike.tensor("w", "F32", [1])
    long.metadata({"k": "v" * 200})
    return [builder.render() for builder in (odd, large, alike, long)]


@cache
def valid_files() -> tuple[bytes, ...]:
    """Valid files of the grammar, the shortest first."""
    grammar = Grammar(random.Random(3))
    made = [grammar.fresh().render() for _ in range(240)] + rare()
    return tuple(sorted((data for data in made if explain(data).valid), key=len))
