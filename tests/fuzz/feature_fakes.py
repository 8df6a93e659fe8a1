"""For each feature of valid files what a reader is like that refuses it, told without the feature's own code.

A test is given the bytes of the header object, what the header says and the data; it looks for the feature
with means of its own. The rule stands here a second time, as a person would look it up in the rule book.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from safetensors_corpus.author.file import FileBuilder
from safetensors_fuzz.grammar.grammar import Grammar
from safetensors_reference import DTYPE_BITS, Header, explain


@dataclass(frozen=True)
class Seen:
    """A valid file as a fake sees it."""

    text: bytes
    header: Header
    data: bytes

    @property
    def tree(self) -> bytes:
        return self.text.rstrip(b" ")

    @property
    def padding(self) -> int:
        return len(self.text) - len(self.tree)

    @property
    def start(self) -> int:
        return 8 + len(self.text)

    @property
    def names(self) -> list[str]:
        return list(self.header.tensors)

    @property
    def texts(self) -> list[str]:
        return [text for pair in (self.header.metadata or {}).items() for text in pair]

    @property
    def pairs(self) -> list[tuple[str, object]]:
        """Members of the header object, metadata too, in their order."""
        return list(json.loads(self.text).items())

    @property
    def strings(self) -> list[tuple[str, bytes]]:
        """Every string with where it stands: ``reserved``, ``metadata``, ``name``, ``field`` or ``dtype``."""
        out, depth, inside = [], 0, False
        for token in re.findall(rb'"(?:[^"\\]|\\.)*"|[{}]', self.text):
            depth += (token == b"{") - (token == b"}")
            if token in (b"{", b"}"):
                continue
            if depth == 1:
                inside = json.loads(token.decode()) == "__metadata__"
                out.append(("reserved" if inside else "name", token))
            elif inside:
                out.append(("metadata", token))
            else:
                fields = ("dtype", "shape", "data_offsets")
                out.append(("field" if json.loads(token.decode()) in fields else "dtype", token))
        return out

    def of(self, *places: str) -> list[bytes]:
        return [raw for place, raw in self.strings if place in places]

    def holds(self, tensor: str) -> bytes:
        told = self.header.tensors[tensor]
        return self.data[told.begin : told.end]


@lru_cache(4096)
def seen(data: bytes) -> Seen:
    header = explain(data, "hardened").header
    assert header is not None
    return Seen(data[8 : header.data_start], header, data[header.data_start :])


def _without_strings(text: bytes) -> bytes:
    return re.sub(rb'"(?:[^"\\]|\\.)*"', b"", text)


def _orders(s: Seen) -> list[list[str]]:
    return [list(value) for name, value in s.pairs if name != "__metadata__" and isinstance(value, dict)]


def _bits(dtype: str) -> int:
    return DTYPE_BITS[dtype]


def _packed(s: Seen) -> list[tuple[int, ...]]:
    return [t.shape for t in s.header.tensors.values() if _bits(t.dtype) % 8]


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for dim in shape:
        count *= dim
    return count


def _folded(names: list[str]) -> list[str]:
    return [name.casefold().replace("e\u0301", "\u00e9") for name in names]


def _by_place(s: Seen) -> list[str]:
    return [t.name for t in s.header.in_offset_order()]


Refuses = Callable[[Seen], object]

FAKES: dict[str, tuple[str, Refuses]] = {
    "an escape in a dtype": ("DTY-04", lambda s: any(b"\\" in raw for raw in s.of("dtype"))),
    "an escape in the name of a field": ("HDR-10", lambda s: any(b"\\" in raw for raw in s.of("field"))),
    "an escape in the key __metadata__": ("MET-06", lambda s: any(b"\\" in raw for raw in s.of("reserved"))),
    "fields in an unusual order": (
        "ENT-06",
        lambda s: any(order != ["dtype", "shape", "data_offsets"] for order in _orders(s)),
    ),
    "whitespace between tokens": ("HDR-08", lambda s: re.search(rb"\s", _without_strings(s.tree))),
    "8 or more spaces after the header object": ("HDR-03", lambda s: s.padding > 7),
    "spaces after the header object": ("HDR-03", lambda s: s.padding > 0),
    "a header whose length is not a multiple of 8": ("FRM-08", lambda s: len(s.text) & 7),
    "an escape of two characters, such as \\n": (
        "HDR-15",
        lambda s: any(re.search(rb"\\[^u]", raw) for raw in s.of("name", "metadata")),
    ),
    "an escaped character that does not need an escape": (
        "HDR-15",
        lambda s: any(
            re.search(rb"(?<!\\)(\\\\)*(\\/|\\u(?!00[01])(?!0022)(?!005[cC]))", raw)
            for raw in s.of("name", "metadata")
        ),
    ),
    "a control character in a name": ("ENT-08", lambda s: any(c < " " for n in s.names for c in n)),
    "a quote or backslash in a name": ("ENT-08", lambda s: any(c in n for n in s.names for c in '"\\')),
    "names that differ only in case or Unicode normal form": (
        "HDR-19",
        lambda s: len(set(_folded(s.names))) < len(s.names),
    ),
    "non-ASCII names": (
        "ENT-08",
        lambda s: any(not n.isascii() for n in s.names),
    ),
    "a tensor with an empty name": ("ENT-07", lambda s: "" in s.names),
    "a long name": ("ENT-10", lambda s: any(len(name) >= 61 for name in s.names)),
    "a name similar to __metadata__": (
        "MET-05",
        lambda s: any("metadata" in name.lower().replace("_", "") for name in s.names),
    ),
    "a name that looks like a path, a number, a pattern or code": (
        "ENT-09",
        lambda s: any("/" in n or n.startswith("__") or n in ("constructor", "shape") for n in s.names),
    ),
    "a name with dots": ("ENT-09", lambda s: any("." in name for name in s.names)),
    "a name with characters other than letters, digits and underscores": (
        "ENT-08",
        lambda s: any(" " in name or "-" in name for name in s.names),
    ),
    "a control character in the metadata": ("MET-04", lambda s: any(c < " " for t in s.texts for c in t)),
    "a quote or backslash in the metadata": ("MET-04", lambda s: any(c in t for t in s.texts for c in '"\\')),
    "non-ASCII metadata": (
        "MET-04",
        lambda s: any(not t.isascii() for t in s.texts),
    ),
    "an empty string in the metadata": ("MET-04", lambda s: "" in s.texts),
    "a metadata key that is also the name of an entry field": (
        "MET-07",
        lambda s: {"dtype", "shape", "data_offsets"} & set(s.header.metadata or ()),
    ),
    "the key format in the metadata": ("MET-09", lambda s: "format" in (s.header.metadata or ())),
    "a long string in the metadata": ("MET-10", lambda s: any(len(text) >= 61 for text in s.texts)),
    "a metadata string with characters other than letters, digits, dots and underscores": (
        "MET-04",
        lambda s: any("{" in text or " " in text for text in s.texts),
    ),
    "several keys in the metadata": ("MET-10", lambda s: len(s.header.metadata or ()) > 1),
    "an empty metadata map": ("MET-03", lambda s: s.header.metadata == {}),
    "an escape in a name or in the metadata": (
        "HDR-15",
        lambda s: any(b"\\" in raw for raw in s.of("name", "metadata")),
    ),
    "metadata": ("MET-01", lambda s: s.header.metadata is not None),
    "a BOOL byte other than 0 and 1": (
        "DAT-05",
        lambda s: any(
            max(s.holds(n), default=0) > 1 for n, t in s.header.tensors.items() if t.dtype == "BOOL"
        ),
    ),
    "data that begins with the magic bytes of another format": (
        "FRM-10",
        lambda s: any(s.holds(n)[:2] in (b"PK", b"GG", b"\x80\x02", b"\x1f\x8b") for n in s.names),
    ),
    "a data byte other than 0": ("DAT-04", lambda s: max(s.data, default=0)),
    "an empty tensor with a large dimension": (
        "SHP-08",
        lambda s: any(0 in t.shape and max(t.shape) > 999 for t in s.header.tensors.values()),
    ),
    "several empty tensors at the same offset": (
        "OFF-10",
        lambda s: any(a.begin == a.end == b.begin == b.end for a, b in pairwise(s.header.in_offset_order())),
    ),
    "an empty tensor after other tensors": (
        "OFF-09",
        lambda s: any(t.begin == t.end > 0 for t in s.header.tensors.values()),
    ),
    "a tensor of zero bytes": ("SHP-04", lambda s: any(t.begin == t.end for t in s.header.tensors.values())),
    "a scalar": (
        "SHP-03",
        lambda s: any(t.shape == () for t in s.header.tensors.values()),
    ),
    "a packed tensor with an odd last dimension": (
        "DTY-12",
        lambda s: any(shape[-1] & 1 for shape in _packed(s)),
    ),
    "a packed tensor whose number of elements is not a multiple of 8": (
        "DTY-09",
        lambda s: any(_count(shape) & 7 for shape in _packed(s)),
    ),
    "a dimension of size 1 among others": (
        "SHP-11",
        lambda s: any(1 in t.shape and t.shape != (1,) for t in s.header.tensors.values()),
    ),
    "several dimensions": ("SHP-10", lambda s: any(len(t.shape) > 1 for t in s.header.tensors.values())),
    "a tensor of more than 64 bytes": (
        "SHP-09",
        lambda s: any(t.end - t.begin > 64 for t in s.header.tensors.values()),
    ),
    "a tensor that does not begin at a multiple of its element size": (
        "OFF-11",
        lambda s: any(
            (s.start + t.begin) % max(_bits(t.dtype) // 8, 1)
            for t in s.header.tensors.values()
            if t.end > t.begin
        ),
    ),
    "entries in a different order than the data": (
        "HDR-17",
        lambda s: [n for n, _ in s.pairs if n != "__metadata__"] != _by_place(s),
    ),
    "metadata that is not the first member": (
        "HDR-17",
        lambda s: "__metadata__" in [n for n, _ in s.pairs[1:]],
    ),
    "no tensors": ("FRM-09", lambda s: not s.names),
    "many tensors": ("ENT-11", lambda s: len(s.names) > 4),
    "tensors with different dtypes": (
        "API-04",
        lambda s: len({t.dtype for t in s.header.tensors.values()}) > 1,
    ),
    "a second tensor": ("ENT-11", lambda s: len(s.names) > 1),
}
"""What a feature is called -> its rule, and whether a reader that does not take it refuses a file."""


def _of_dtype(dtype: str) -> Refuses:
    return lambda s: any(t.dtype == dtype for t in s.header.tensors.values())


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
