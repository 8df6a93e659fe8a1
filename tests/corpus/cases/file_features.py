"""What is unusual about a file: an own small look at its bytes, with nothing but the standard library.

A case about one thing should be plain in every other respect. ``unusual`` names what a reader could refuse,
or read otherwise, for. It reads leniently and judges nothing: whether a file is valid is not the question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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
Range = tuple[int, list[int] | None]
"""Width of an element (1 when it is not known), and the range of an entry (None when it is no pair)."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object with repeated keys."""

    def repeats(self) -> bool:
        return len(dict(self)) != len(self)


class Number(str):
    """A number as it is spelled."""

    __slots__ = ()


def true(things: Mapping[str, object]) -> set[str]:
    return {thing for thing, is_so in things.items() if is_so}


def unusual(data: bytes) -> set[str]:
    """Return the names of everything about a file that is not plain."""
    length = int.from_bytes(data[:8], "little")
    header, buffer = data[8 : 8 + length], data[8 + length :]
    if length != len(header) or len(data) < 8 or not length:
        return {"framing"}
    text = header
    for deep in DEEP:
        text = re.sub(deep, _shallow, text)
    found = _of_text(header) | true({"header-length": length % 8, "deep": text != header})
    try:
        top, _ = json.JSONDecoder(
            object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=Number
        ).raw_decode(text.decode("utf-8").lstrip())
    except (ValueError, RecursionError):
        top = None
    return found | (_of_top(top, len(buffer), 8 + length) if isinstance(top, Pairs) else {"no-json"})


def _shallow(match: re.Match[bytes]) -> bytes:
    """Put one empty array in the place of a deep value; what closes more than was opened stays."""
    opened = match[1].count(b"[") + match[1].count(b"{")
    return b"[[]]" + match[2][opened:]


def _of_text(header: bytes) -> set[str]:
    body = header.rstrip(b" ")
    return true(
        {
            "before-brace": not header.startswith(b"{"),
            "behind-brace": not body.endswith(b"}"),
            "non-ascii": not header.isascii(),
            "space-between-tokens": re.search(rb"\s", re.sub(STRING, b'""', body).strip()),
            "raw-control": re.search(rb"[\x00-\x1f\x7f]", b"".join(re.findall(STRING, body))),
            "escape": b"\\" in header,
        }
    )


def _of_top(top: Pairs, size: int, start: int) -> set[str]:
    tensors = [(key, value) for key, value in top if key != "__metadata__"]
    entries = [value for _, value in tensors if isinstance(value, Pairs)]
    found = true(
        {
            "name-twice": top.repeats(),
            "no-tensors": not tensors,
            "many-tensors": len(tensors) > 64,
            "name": not all(PLAIN_NAME.fullmatch(key) for key, _ in tensors),
            "entry-form": len(entries) != len(tensors),
        }
    )
    found.update(*(_of_metadata(value) for key, value in top if key == "__metadata__"))
    ranges = [_range(value) for value in entries]
    return found.union(*map(_of_entry, entries), _of_ranges(ranges, size, start, "entry-form" not in found))


def _of_metadata(value: object) -> set[str]:
    if not isinstance(value, Pairs) or not all(type(item) is str for _, item in value):
        return {"metadata", "metadata-form"}
    forms = {
        "metadata-key-twice": value.repeats(),
        "metadata-empty": not value,
        "much-metadata": len(value) > 8,
        "metadata-text": not all(PLAIN_NAME.fullmatch(text) for item in value for text in item),
    }
    return {"metadata", *[form for form, is_so in forms.items() if is_so][:1]}


def _of_entry(value: Pairs) -> set[str]:
    keys, fields = [key for key, _ in value], dict(value)
    missing = set(FIELDS) - set(keys)
    dtype, shape = fields.get("dtype"), fields.get("shape")
    text = isinstance(dtype, str) and not isinstance(dtype, Number)
    rare = f"dtype-{str(dtype).lower()}" if text and dtype in WIDTHS else "dtype-rare"
    array = isinstance(shape, list) and not isinstance(shape, Pairs)
    found = {
        "field-twice": value.repeats(),
        "unknown-field": set(keys) - set(FIELDS),
        "field-missing": missing,
        "field-order": not missing and [key for key in keys if key in FIELDS][:3] != FIELDS,
        "dtype-form": not text,
        rare: text and dtype not in PLAIN_DTYPES,
        "shape-form": "shape" in fields and not array,
        "offsets-form": fields.get("data_offsets") is not None and _range(value)[1] is None,
    }
    unknown = {f"unknown-{form}" for key, item in value if key not in FIELDS for form in _value(item)}
    return true(found) | unknown | (_of_shape(shape) if isinstance(shape, list) and array else set())


def _value(item: object) -> Iterator[str]:
    """What is unusual about the value of an unknown field."""
    if isinstance(item, Number):
        if not item.isdecimal():
            yield "number-form"
        elif int(item[:40]) > 2**31:
            yield "number-large"
    elif isinstance(item, list):
        yield "nested"
        for inner in dict(item).values() if isinstance(item, Pairs) else item:
            yield from _value(inner)
    elif isinstance(item, str) and len(item) > 64:
        yield "long"


def _of_shape(shape: list[Any]) -> set[str]:
    plain = all(isinstance(dim, Number) and DIMENSION.fullmatch(dim) for dim in shape)
    sizes = [int(dim[:40]) for dim in shape] if plain else []
    return true(
        {
            "scalar": not shape,
            "rank": len(shape) > 6,
            "dimension-form": not plain,
            "empty": 0 in sizes,
            "dimension-large": any(size >= 2**31 for size in sizes),
            "product-large": prod(filter(None, sizes)) >= 2**64,
        }
    )


def _range(entry: Pairs) -> Range:
    fields = dict(entry)
    pair, dtype = fields.get("data_offsets"), fields.get("dtype")
    width = WIDTHS.get(dtype, 1) if isinstance(dtype, str) else 1
    if not isinstance(pair, list) or len(pair) != 2:
        return width, None
    plain = all(isinstance(end, Number) and re.fullmatch("0|[1-9][0-9]{0,30}", end) for end in pair)
    return width, [int(end) for end in pair] if plain else None


def _of_ranges(ranges: list[Range], size: int, start: int, whole: bool) -> set[str]:
    known = [(width, pair) for width, pair in ranges if pair is not None]
    begins = [pair[0] for _, pair in known]
    at, covered = 0, True
    for begin, end in sorted(pair for _, pair in known):
        covered &= begin == at
        at = max(at, end)
    odd = [begin % width or (start + begin) % width for width, (begin, end) in known if begin != end]
    return true(
        {
            "misaligned": any(odd),
            "order": begins != sorted(begins),
            "coverage": whole and len(known) == len(ranges) and not (covered and at == size),
        }
    )
