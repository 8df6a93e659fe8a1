"""A second reader of the hardened profile, written from the rules: slow, plain, and unlike the real one.

It holds the whole file in memory, lets the standard ``json`` module do the grammar, raises at the first
breach, and decides the layout by counting how often each data byte is covered. It shares no code and no
table with the package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Never

CAP = 100_000_000
BITS = {
    "F4": 4,
    "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Widths as rule DTY-05 lists them."""


class BreachError(Exception):
    """The file is invalid; the text is for the person who debugs a disagreement."""


class Number(str):
    """A JSON number, as it is spelled."""

    __slots__ = ()


class Pairs(list[tuple[str, object]]):
    """A JSON object, repeated keys included."""


@dataclass(frozen=True)
class Content:
    """What a valid file says: name -> (dtype, shape, begin, end), and the metadata."""

    tensors: dict[str, tuple[str, tuple[int, ...], int, int]]
    metadata: Mapping[str, str] | None


def read(data: bytes) -> Content:
    """Return what the file says. Raises BreachError."""
    header, size = split(data)
    tensors: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
    metadata: dict[str, str] | None = None
    for name, value in unique(parse(header)):
        if name == "__metadata__":
            metadata = strings(value)
        else:
            tensors[name] = entry(value)
    covered_once([(begin, end) for _, _, begin, end in tensors.values()], size)
    return Content(tensors, metadata)


def is_valid(data: bytes) -> bool:
    try:
        read(data)
    except BreachError:
        return False
    return True


def split(data: bytes) -> tuple[bytes, int]:
    """Return the header bytes and the size of the data buffer (FRM)."""
    if len(data) < 8:
        raise BreachError("shorter than the length prefix")
    length = sum(byte << (8 * place) for place, byte in enumerate(data[:8]))
    if length == 0 or length > CAP or 8 + length > len(data):
        raise BreachError(f"header length {length}")
    return data[8 : 8 + length], len(data) - 8 - length


def parse(header: bytes) -> Pairs:
    """Return the header object (HDR)."""
    try:
        text = header.decode("utf-8").rstrip(" ")
        if not (text.startswith("{") and text.endswith("}")):
            raise BreachError("something before or behind the object")
        value = json.loads(
            text, object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=constant
        )
        json.dumps(value, ensure_ascii=False).encode()  # which refuses lone surrogates
    except (ValueError, RecursionError) as err:
        raise BreachError(str(err)) from err
    if not isinstance(value, Pairs):
        raise BreachError("not an object")
    return value


def constant(name: str) -> Never:
    """Refuse NaN and the infinities, which Python's json reads."""
    raise BreachError(f"{name} is not JSON")


def unique(pairs: Pairs) -> Pairs:
    """Refuse repeated keys."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise BreachError(f"repeated key among {keys}")
    return pairs


def strings(value: object) -> dict[str, str]:
    """Return the metadata map (MET)."""
    if not isinstance(value, Pairs):
        raise BreachError("metadata is no object")
    out: dict[str, str] = {}
    for key, item in unique(value):
        if not isinstance(item, str) or isinstance(item, Number):
            raise BreachError(f"metadata value of {key!r} is no string")
        out[key] = item
    return out


def entry(value: object) -> tuple[str, tuple[int, ...], int, int]:
    """Return dtype, shape, begin and end of a tensor entry (ENT, DTY, SHP, OFF-01 to OFF-05)."""
    if not isinstance(value, Pairs):
        raise BreachError("entry is no object")
    fields = dict(unique(value))
    if set(fields) != {"dtype", "shape", "data_offsets"}:
        raise BreachError(f"fields {sorted(fields)}")
    dtype = fields["dtype"]
    if not isinstance(dtype, str) or isinstance(dtype, Number) or dtype not in BITS:
        raise BreachError(f"dtype {dtype!r}")
    shape = integers(fields["shape"])
    offsets = integers(fields["data_offsets"])
    if len(offsets) != 2:
        raise BreachError("data_offsets is no pair")
    elements, nonzero = 1, 1
    for dim in shape:
        elements *= dim
        nonzero *= dim or 1
    bits = elements * BITS[dtype]
    if nonzero >= 2**64 or bits >= 2**64:
        raise BreachError("overflow")
    if bits % 8 != 0:
        raise BreachError("not whole bytes")
    begin, end = offsets
    if end - begin != bits // 8:
        raise BreachError(f"range {begin}..{end} for {bits // 8} bytes")
    return dtype, tuple(shape), begin, end


def integers(value: object) -> list[int]:
    """Return an array of plain integers below 2^64 (SHP-02, SHP-07)."""
    if not isinstance(value, list) or isinstance(value, Pairs):
        raise BreachError("not an array")
    out = []
    for item in value:
        if not isinstance(item, Number) or not re.fullmatch("0|[1-9][0-9]{0,19}", item):
            raise BreachError(f"{str(item)[:40]!r} is no plain integer")
        if int(item) >= 2**64:
            raise BreachError(f"{item} needs more than 64 bits")
        out.append(int(item))
    return out


def covered_once(ranges: list[tuple[int, int]], size: int) -> None:
    """Refuse ranges that do not cover every data byte exactly once (OFF-04 to OFF-09)."""
    cover = [0] * size
    borders = {0, size}
    for begin, end in ranges:
        if end > size:
            raise BreachError(f"range {begin}..{end} in a buffer of {size}")
        for place in range(begin, end):
            cover[place] += 1
        if begin != end:
            borders |= {begin, end}
    if any(count != 1 for count in cover):
        raise BreachError("a hole or an overlap")
    for begin, end in ranges:
        if begin == end and begin not in borders:
            raise BreachError(f"empty tensor at {begin}")
