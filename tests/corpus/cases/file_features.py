"""What is unusual about a file: an own small look at its bytes, with nothing but the standard library.

A case about one thing should be plain in every other respect. ``unusual`` names what a reader could refuse,
or read otherwise, for. It reads leniently and judges nothing: whether a file is valid is not the question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

PLAIN_DTYPES = {"F32": 4, "U8": 1, "I8": 1, "I16": 2, "I32": 4}
"""Dtypes that every reader has, and their widths in bytes."""
WIDTHS = {**PLAIN_DTYPES, "BOOL": 1, "F16": 2, "BF16": 2, "U16": 2, "U32": 4, "F64": 8, "I64": 8, "U64": 8,
          "C64": 8}  # fmt: skip
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./]{0,63}")
FIELDS = ["dtype", "shape", "data_offsets"]
STRING = rb'"(?:[^"\\]|\\.)*"'
DEEP = (rb"((?:\[){20,})[^\[\]]*(\]{20,})", rb'((?:\{"a?":){20,})(?:0|\{\})(\}{20,})')
"""Arrays and objects nested in the ways of the cases; the groups are what opens and what closes them."""
DIMENSION = re.compile("0|[1-9][0-9]*")
DIGITS = re.compile("[0-9]+")


class Pairs(list[tuple[str, Any]]):
    """A JSON object with repeated keys."""


def unusual(data: bytes) -> set[str]:
    """Return the names of everything about a file that is not plain."""
    length = int.from_bytes(data[:8], "little")
    header, buffer = data[8 : 8 + length], data[8 + length :]
    found: set[str] = set()
    if length != len(header) or len(data) < 8 or not length:
        return {"framing"}
    if length % 8:
        found.add("header-length")
    found.update(_of_text(header))
    text = header
    for deep in DEEP:
        text, count = re.subn(deep, _shallow, text)
        if count:
            found.add("deep")
    try:
        top, _ = json.JSONDecoder(
            object_pairs_hook=Pairs, parse_int=_Spelled, parse_float=_Spelled, parse_constant=_Spelled
        ).raw_decode(text.decode("utf-8").lstrip())
    except (ValueError, RecursionError):
        return found | {"no-json"}
    if not isinstance(top, Pairs):
        return found | {"no-json"}
    return found | set(_of_top(top, len(buffer), 8 + length))


def _shallow(match: re.Match[bytes]) -> bytes:
    """Put one empty array in the place of a deep value; what closes more than was opened stays."""
    opened = match[1].count(b"[") + match[1].count(b"{")
    return b"[[]]" + match[2][opened:]


class _Spelled(str):
    """A number as it is spelled."""

    __slots__ = ()


def _of_text(header: bytes) -> Iterator[str]:
    body = header.rstrip(b" ")
    if not header.startswith(b"{"):
        yield "before-brace"
    if not body.endswith(b"}"):
        yield "behind-brace"
    if not header.isascii():
        yield "non-ascii"
    outside = re.sub(STRING, b'""', body)
    if re.search(rb"\s", outside.strip()):
        yield "space-between-tokens"
    if re.search(rb"[\x00-\x1f\x7f]", b"".join(re.findall(STRING, body))):
        yield "raw-control"
    if b"\\" in header:
        yield "escape"


def _of_top(top: Pairs, size: int, start: int) -> Iterator[str]:
    if len({key for key, _ in top}) != len(top):
        yield "name-twice"
    tensors = Pairs((key, value) for key, value in top if key != "__metadata__")
    if not tensors:
        yield "no-tensors"
    if len(tensors) > 64:
        yield "many-tensors"
    ranges: list[tuple[int, list[int] | None]] = []
    for key, value in top:
        if key == "__metadata__":
            yield from _of_metadata(value)
            continue
        if not PLAIN_NAME.fullmatch(key):
            yield "name"
        if not isinstance(value, Pairs):
            yield "entry-form"
            ranges.append((1, None))
            continue
        yield from _of_entry(value)
        ranges.append(_range(value))
    yield from _of_ranges(ranges, size, start)


def _of_metadata(value: object) -> Iterator[str]:
    yield "metadata"
    if not isinstance(value, Pairs) or not all(type(item) is str for _, item in value):
        yield "metadata-form"
    elif len({key for key, _ in value}) != len(value):
        yield "metadata-key-twice"
    elif not value:
        yield "metadata-empty"
    elif len(value) > 8:
        yield "much-metadata"
    elif not all(PLAIN_NAME.fullmatch(text) for item in value for text in item):
        yield "metadata-text"


def _of_entry(value: Pairs) -> Iterator[str]:
    keys = [key for key, _ in value]
    fields = dict(value)
    if len(fields) != len(value):
        yield "field-twice"
    if set(keys) - set(FIELDS):
        yield "unknown-field"
    if set(FIELDS) - set(keys):
        yield "field-missing"
    elif [key for key in keys if key in FIELDS][:3] != FIELDS:
        yield "field-order"
    yield from (f"unknown-{form}" for key, item in value if key not in FIELDS for form in _value(item))
    dtype, shape = fields.get("dtype"), fields.get("shape")
    if not isinstance(dtype, str) or isinstance(dtype, _Spelled):
        yield "dtype-form"
    elif dtype not in PLAIN_DTYPES:
        yield f"dtype-{dtype.lower()}" if dtype in WIDTHS else "dtype-rare"
    if isinstance(shape, list) and not isinstance(shape, Pairs):
        yield from _of_shape(shape)
    elif "shape" in fields:
        yield "shape-form"
    if fields.get("data_offsets") is not None and _range(value)[1] is None:
        yield "offsets-form"


def _value(item: object) -> Iterator[str]:
    """What is unusual about the value of an unknown field."""
    if isinstance(item, _Spelled):
        if not DIGITS.fullmatch(item):
            yield "number-form"
        elif int(item[:40]) > 2**31:
            yield "number-large"
    elif isinstance(item, Pairs):
        yield "nested"
        for _, inner in item:
            yield from _value(inner)
    elif isinstance(item, list):
        yield "nested"
        for inner in item:
            yield from _value(inner)
    elif isinstance(item, str) and len(item) > 64:
        yield "long"


def _of_shape(shape: list[Any]) -> Iterator[str]:
    if not shape:
        yield "scalar"
    if len(shape) > 6:
        yield "rank"
    if not all(isinstance(dim, _Spelled) and DIMENSION.fullmatch(dim) for dim in shape):
        yield "dimension-form"
        return
    if "0" in shape:
        yield "empty"
    if any(int(dim[:40]) >= 2**31 for dim in shape):
        yield "dimension-large"
    if prod(int(dim[:40]) for dim in shape if dim != "0") >= 2**64:
        yield "product-large"


def _range(entry: Pairs) -> tuple[int, list[int] | None]:
    """Width of an element (1 when it is not known) and the range of an entry (None when it is no pair)."""
    fields = dict(entry)
    pair = fields.get("data_offsets")
    dtype = fields.get("dtype")
    width = WIDTHS.get(dtype, 1) if isinstance(dtype, str) else 1
    if not isinstance(pair, list) or len(pair) != 2:
        return width, None
    plain = all(isinstance(end, _Spelled) and re.fullmatch("0|[1-9][0-9]{0,30}", end) for end in pair)
    return width, [int(end) for end in pair] if plain else None


def _of_ranges(ranges: Iterable[tuple[int, list[int] | None]], size: int, start: int) -> Iterator[str]:
    ranges = list(ranges)
    known = [(width, pair) for width, pair in ranges if pair is not None]
    if any(pair[0] % width or (start + pair[0]) % width for width, pair in known if pair[0] != pair[1]):
        yield "misaligned"
    begins = [pair[0] for _, pair in known]
    if begins != sorted(begins):
        yield "order"
    if len(known) < len(ranges):
        return
    at = 0
    for begin, end in sorted(pair for _, pair in known):
        if begin != at:
            yield "coverage"
        at = max(at, end)
    if at != size:
        yield "coverage"
