"""A small and correct reader of the hardened profile, from which broken readers are derived.

Checks have names and can be left out (``left_out``); other parts are fields and can be replaced. It shares
neither code nor tables with the reference reader, so that the two can check each other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors_corpus.judging.answer import Refused

from .json import Checked, Grammar, Number, Pairs

CAP = 100_000_000
RESERVED = "__metadata__"
FIELDS = ("dtype", "shape", "data_offsets")
WIDTHS = {
    **dict.fromkeys(["F4"], 4),
    **dict.fromkeys(["F6_E2M3", "F6_E3M2"], 6),
    **dict.fromkeys(["BOOL", "U8", "I8"], 8),
    **dict.fromkeys(["F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"], 8),
    **dict.fromkeys(["I16", "U16", "F16", "BF16"], 16),
    **dict.fromkeys(["I32", "U32", "F32"], 32),
    **dict.fromkeys(["I64", "U64", "F64", "C64"], 64),
}
"""Number of bits of one element (DTY-05)."""
PLAIN = re.compile("0|[1-9][0-9]{0,19}")


@dataclass(frozen=True)
class Tensor:
    """A checked tensor entry; the offsets count bytes from the start of the data buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def little_endian(prefix: bytes) -> int:
    return int.from_bytes(prefix, "little")


def utf8(header: bytes) -> str:
    try:
        return header.decode("utf-8")
    except UnicodeDecodeError as err:
        raise Refused("utf-8") from err


def plain_integer(value: object) -> int:
    """Return a dimension or offset, which must consist of digits and be below 2^64 (SHP-02, SHP-07)."""
    if not isinstance(value, Number) or not PLAIN.fullmatch(value):
        raise Refused("integer")
    if int(value) >= 2**64:
        raise Refused("integer-range")
    return int(value)


def exact_bits(width: int, shape: Sequence[int]) -> int:
    """Return the size of a tensor in bits. Raises Refused if it exceeds 64 bits (SHP-05, SHP-06)."""
    elements, without_zeros = 1, 1
    for dim in shape:
        elements *= dim
        without_zeros *= dim or 1
        # Stopping early keeps the product of a hostile shape from growing without limit.
        if without_zeros >= 2**64:
            raise Refused("overflow")
    if elements * width >= 2**64:
        raise Refused("overflow")
    return elements * width


def whole_bytes(width: int, shape: Sequence[int]) -> int:
    """Return the size of a tensor in bytes. Raises Refused if its bits do not fill whole bytes (DTY-09)."""
    bits = exact_bits(width, shape)
    if bits % 8 != 0:
        raise Refused("part-of-a-byte")
    return bits // 8


def by_offset(tensors: Sequence[Tensor]) -> list[Tensor]:
    return sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end))


def unchanged(text: str) -> str:
    return text


def is_reserved(key: str) -> bool:
    return key == RESERVED


def last_wins(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs as a map. Only broken readers accept a repeated key, whose last value wins."""
    return dict(pairs)


def raw_bytes(_tensor: Tensor, data: bytes) -> bytes:
    return data


@dataclass(frozen=True)
class SmallReader(Checked):
    """A reader whose parts are fields; ``left_out`` names the checks that it leaves out."""

    grammar: Grammar = field(default_factory=Grammar)
    cap: int = CAP
    length: Callable[[bytes], int] = little_endian
    decode: Callable[[bytes], str] = utf8
    before: str = ""
    padding: str = " *"
    names: Callable[[str], str] = unchanged
    unique: Callable[[Sequence[tuple[str, object]]], dict[str, object]] = last_wins
    reserved: Callable[[str], bool] = is_reserved
    metadata_text: Callable[[str], str] = unchanged
    field_names: Callable[[str], str] = unchanged
    widths: Mapping[str, int] = field(default_factory=lambda: WIDTHS)
    dimension: Callable[[object], int] = plain_integer
    offset: Callable[[object], int] = plain_integer
    size: Callable[[int, Sequence[int]], int] = whole_bytes
    order: Callable[[Sequence[Tensor]], list[Tensor]] = by_offset
    values: Callable[[Tensor, bytes], bytes] = raw_bytes

    def read(self, path: Path) -> dict[str, Any]:
        """Return the content of a file in the form of the manifest. Raises Refused and OSError."""
        return self.content(path.read_bytes())

    def content(self, file: bytes) -> dict[str, Any]:
        """Return the content of the bytes of a file. Raises Refused."""
        header, data = self.split(file)
        tensors, metadata = self.entries(self.members(header))
        self.check_layout(tensors, len(data))
        return {"tensors": [self.described(t, data) for t in tensors], "metadata": metadata}

    def split(self, file: bytes) -> tuple[bytes, bytes]:
        """Return the header and the data buffer (FRM)."""
        self.demand("length-prefix", len(file) >= 8)
        length = self.length(file[:8])
        self.demand("header-cap", length <= self.cap)
        self.demand("header-empty", length > 0)
        self.demand("header-past-end", 8 + length <= len(file))
        return file[8 : 8 + length], file[8 + length :]

    def members(self, header: bytes) -> Pairs:
        text = self.decode(header)
        start = re.compile(self.before).match(text)
        begin = start.end() if start else 0
        self.demand("first-brace", text[begin : begin + 1] == "{")
        value, end = self.grammar.value(text, begin)
        self.demand("padding", re.compile(self.padding).fullmatch(text, end) is not None)
        if not isinstance(value, Pairs):
            self.demand("header-object", False)
            return Pairs()
        return value

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        """Return the tensors in the order of the header, and the metadata (ENT, MET)."""
        pairs = [(self.names(name), value) for name, value in members]
        keys = [key for key, _ in pairs if not self.reserved(key)]
        self.demand("name-twice", len(set(keys)) == len(keys))
        self.demand("metadata-twice", len(pairs) - len(keys) <= 1)
        tensors, metadata = [], None
        for name, value in self.unique(pairs).items():
            if self.reserved(name):
                metadata = self.metadata(value)
            elif (tensor := self.entry(name, value)) is not None:
                tensors.append(tensor)
        return tensors, metadata

    def metadata(self, value: object) -> dict[str, Any] | None:
        if not isinstance(value, Pairs):
            self.demand("metadata-map", False)
            return None
        pairs = [(self.metadata_text(key), item) for key, item in value]
        self.demand("metadata-key-twice", len({key for key, _ in pairs}) == len(pairs))
        self.demand("metadata-value", all(type(item) is str for _, item in pairs))
        return {k: self.metadata_text(v) if type(v) is str else v for k, v in self.unique(pairs).items()}

    def entry(self, name: str, value: object) -> Tensor | None:
        """Return the tensor that an entry describes; a broken reader may return None to skip it."""
        if not isinstance(value, Pairs):
            self.demand("entry-object", False)
            return None
        pairs = [(self.field_names(key), item) for key, item in value]
        self.demand("field-twice", len({key for key, _ in pairs}) == len(pairs))
        fields = self.unique(pairs)
        self.demand("field-unknown", all(key in FIELDS for key in fields))
        self.demand("field-missing", all(key in fields for key in FIELDS))
        return self.tensor(name, fields)

    def tensor(self, name: str, fields: Mapping[str, object]) -> Tensor:
        """Return the tensor that the three fields describe (DTY, SHP, OFF-01 to OFF-05)."""
        dtype = self.dtype(fields["dtype"])
        shape = self.shape(fields["shape"])
        begin, end = self.offsets(fields["data_offsets"])
        self.demand("reversed", begin <= end)
        size = self.size(self.widths[dtype], shape) if dtype in self.widths else end - begin
        self.demand("range-size", end - begin == size)
        return Tensor(name, dtype, shape, begin, end)

    def dtype(self, value: object) -> str:
        if type(value) is not str:
            raise Refused("dtype-type")
        self.demand("dtype-known", value in self.widths)
        return value

    def shape(self, value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or isinstance(value, Pairs):
            raise Refused("shape-array")
        return tuple([self.dimension(item) for item in value])

    def offsets(self, value: object) -> tuple[int, int]:
        """Return the position of the first byte and the position after the last byte."""
        if not isinstance(value, list) or isinstance(value, Pairs) or len(value) < 2:
            raise Refused("offsets-array")
        self.demand("offsets-pair", len(value) == 2)
        return self.offset(value[0]), self.offset(value[1])

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        """Check that the ranges cover the data buffer exactly (OFF-04 to OFF-09)."""
        place = 0
        for tensor in self.order(tensors):
            self.demand("hole", tensor.begin <= place)
            self.demand("overlap", tensor.begin >= place)
            place = max(place, tensor.end)
        self.demand("past-end", place <= size)
        self.demand("trailing", place >= size)

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        raw = self.values(tensor, data[tensor.begin : tensor.end])
        return {
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "nbytes": len(raw),
            "sha256": hashlib.sha256(raw).hexdigest(),
        }


READER = SmallReader()
"""The correct reader."""
IGNORING = READER.without("field-unknown")
"""The correct reader with the other option of ENT-04. It skips unknown fields, so that faults inside them
matter.
"""
