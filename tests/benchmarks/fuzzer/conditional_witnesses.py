"""A witness for each reader of the conditional set, made by hand, and what such files are made of."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

BYTES = random.Random(7).randbytes(2**17)
PLAIN_WIDTHS = {"U8": 1, "I8": 1, "I32": 4, "F32": 4, "I64": 8}


@dataclass(frozen=True)
class Witness:
    """A file on which a reader goes wrong, and its neighbours, each of which lacks one condition."""

    name: str
    file: bytes
    neighbours: tuple[bytes, ...]


def witness(name: str, file: bytes, *neighbours: bytes) -> Witness:
    return Witness(name, file, neighbours)


def file(header: str | bytes, data: bytes | int = b"", length: int | None = None) -> bytes:
    """Return a file; ``data`` may be a number of bytes, ``length`` another one than that of the header."""
    head = header.encode() if isinstance(header, str) else header
    body = BYTES[:data] if isinstance(data, int) else data
    return (len(head) if length is None else length).to_bytes(8, "little") + head + body


def entry(name: str, dtype: str, shape: Sequence[int], begin: int, end: int) -> str:
    fields = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    return f"{json.dumps(name, ensure_ascii=False)}:{json.dumps(fields, separators=(',', ':'))}"


def u8(name: str, begin: int, end: int) -> str:
    return entry(name, "U8", [end - begin], begin, end)


def head(*members: str) -> str:
    return "{" + ",".join(members) + "}"


def meta(*texts: str) -> str:
    """Return a metadata map; the texts are keys and values by turns."""
    pairs = dict(zip(texts[::2], texts[1::2], strict=True))
    return f'"__metadata__":{json.dumps(pairs, ensure_ascii=False)}'


def value(raw: str) -> str:
    """Return a header with one metadata value, as it is spelled."""
    return '{"__metadata__":{"k":"' + raw + '"}}'


def to(header: str, multiple: int, rest: int = 0) -> str:
    """Pad a header until its length leaves ``rest`` when it is divided by ``multiple``."""
    return header + " " * ((rest - len(header)) % multiple)


def chain(*tensors: tuple[str, Sequence[int]]) -> bytes:
    """Return a file of tensors a, b, c ... one behind the other, each a dtype and a shape."""
    members, place = [], 0
    for name, (dtype, shape) in zip("abcdefgh", tensors, strict=False):
        size = PLAIN_WIDTHS.get(dtype, 1)
        for dim in shape:
            size *= dim
        members.append(entry(name, dtype, shape, place, place + size))
        place += size
    return file(head(*members), place)


def at(place: int, multiple: int, raw: str) -> str:
    """Return a header whose metadata value ends in ``raw``, at a place of a block of so many characters."""
    filler = (place - value("").index('""') - 1) % multiple
    return value("a" * filler + raw)


def broken_byte(header: str) -> bytes:
    return header.encode().replace(b"?", b"\xff")


def filled(length: int) -> str:
    """Return a header of that length without padding."""
    return value("a" * (length - len(value(""))))


ONE = head(u8("a", 0, 8))
TINY = file(ONE, 8)
LAST = 2**64


FRAMING = (
    witness(
        "padding-unread-behind-the-page",
        file(ONE.ljust(5000) + "\0", 8),
        file(ONE.ljust(5000), 8),
        file(ONE + "\0", 8),
    ),
    witness(
        "length-narrowed-in-small-files",
        file(ONE, 8, len(ONE) + 2**32),
        file(head(u8("a", 0, 5000)), 5000, len(head(u8("a", 0, 5000))) + 2**32),
        TINY,
    ),
    witness(
        "length-counted-from-the-end",
        file(ONE, 8, LAST - 16),
        file(ONE, 8, 2**63),
        file(ONE, 8, 2**64 - 8),
        TINY,
    ),
    witness(
        "zero-rest-up-to-eight",
        file(to(head(u8("a", 0, 5)), 8), b"abcde\0\0\0"),
        file(to(head(u8("a", 0, 5)), 8), b"abcde\0\0\1"),
        file(to(head(u8("a", 0, 5)), 8), b"abcde\0\0"),
    ),
    witness(
        "direct-block-fills",
        file(head(u8("a", 0, 100)).ljust(414), 90),
        file(head(u8("a", 0, 100)).ljust(414), 89),
        file(head(u8("a", 0, 700)).ljust(414), 90),
        file(head(u8("a", 0, 90)).ljust(414), 90),
    ),
    witness("buffer-missing-beside-tensors", chain(("U8", [0])), file("{}"), chain(("U8", [0]), ("U8", [2]))),
    witness(
        "header-across-the-first-page",
        file(filled(4090)),
        file(filled(4088)),
        file(filled(4097)),
        file(filled(4080).ljust(4090)),
    ),
    witness(
        "spaces-skipped-behind-header",
        file(to(ONE, 8, 5), b"  abcdef"),
        file(to(ONE, 8), b"  abcdef"),
        file(to(ONE, 8, 5), b"abcdefgh"),
    ),
    witness("brace-at-the-block-end", file(filled(128)), file(filled(127) + " "), file(filled(127))),
    witness(
        "wide-elements-read-aligned",
        file(to(head(entry("a", "I64", [1], 0, 8)), 8, 5), 8),
        file(to(head(entry("a", "I64", [1], 0, 8)), 8), 8),
        file(to(head(entry("a", "F32", [2], 0, 8)), 8, 5), 8),
    ),
)

TEXT = (
    witness(
        "ascii-test-of-half-a-block",
        file(broken_byte(at(9, 16, "?"))),
        file(broken_byte(at(3, 16, "?"))),
        file(at(9, 16, "?")),
    ),
    witness(
        "modified-utf8-in-metadata",
        file(value("?").encode().replace(b"?", b"\xc0\x80")),
        file(head(u8("?", 0, 0)).encode().replace(b"?", b"\xc0\x80")),
        file(value("\\u0000")),
    ),
    witness(
        "controls-behind-escape",
        file(value("a\\n\x01")),
        file(value("a\x01\\n")),
        file(value("a\\nb")),
    ),
    witness(
        "controls-in-the-tail",
        file(value("a" * 20 + "\x01")),
        file(value("aaaa\x01")),
        file(value("\x01" + "a" * 20)),
        file(value("a" * 21)),
    ),
    witness(
        "signed-compare-in-long-strings",
        file(head(u8("é" + "a" * 20, 0, 0))),
        file(head(u8("é", 0, 0))),
        file(head(u8("a" * 21, 0, 0))),
    ),
    witness(
        "escape-at-the-block-end",
        file(at(31, 32, "\\nb")),
        file(at(30, 32, "\\nb")),
        file(at(31, 32, "nb")),
    ),
    witness(
        "low-half-in-upper-case",
        file(value("\\ud83d\\uDE00")),
        file(value("\\ud83d\\ude00")),
        file(value("\\uD83D\\uDE00")),
    ),
    witness(
        "long-whitespace",
        file('{"__metadata__":' + " " * 65 + "{}}"),
        file('{"__metadata__":' + " " * 64 + "{}}"),
    ),
    witness(
        "carriage-return-behind-number",
        file(ONE.replace("[8]", "[8\r]"), 8),
        file(ONE.replace("[8]", "[8\n]"), 8),
        file(ONE.replace("[8]", "[\r8]"), 8),
    ),
    witness(
        "trailing-comma-before-whitespace",
        file(ONE.replace("[8]", "[8,\n]"), 8),
        file(ONE.replace("[8]", "[8,]"), 8),
        file(ONE.replace("[8]", "[8\n]"), 8),
    ),
)


def nine(last: str) -> bytes:
    """Return a file of eight empty tensors a to h and one more, whose name is spelled as given."""
    names = [json.dumps(name) for name in "abcdefgh"]
    empty = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return file(head(*(f"{name}:{empty}" for name in [*names, f'"{last}"'])))


ENTRIES = (
    witness(
        "escaped-twice-among-many",
        nine("\\u0061"),
        nine("a"),
        file(head(u8("a", 0, 0), u8("a", 0, 0).replace('"a"', '"\\u0061"'))),
        nine("\\u0069"),
    ),
    witness(
        "metadata-twice-if-escaped",
        file(head(meta("a", "b"), meta("c", "d").replace("__m", "_\\u005fm"))),
        file(head(meta("a", "b"), meta("c", "d"))),
        file(head(meta("c", "d").replace("__m", "_\\u005fm"))),
    ),
    witness(
        "names-alike-in-64-characters",
        file(head(u8("n" * 64 + "a", 0, 0), u8("n" * 64 + "b", 0, 0))),
        file(head(u8("n" * 63 + "a", 0, 0), u8("n" * 63 + "b", 0, 0))),
    ),
    witness(
        "long-names-cut-at-nul",
        file(head(u8("a" * 23 + "\0b", 0, 0))),
        file(head(u8("a\0b", 0, 0))),
        file(head(u8("a" * 30, 0, 0))),
    ),
    witness(
        "dtype-of-the-entry-before",
        file(head(u8("a", 0, 4), u8("b", 4, 8).replace('"dtype":"U8",', "")), 8),
        file(head(u8("a", 0, 4).replace('"dtype":"U8",', ""), u8("b", 4, 8)), 8),
        file(head(u8("a", 0, 4), u8("b", 4, 8)), 8),
    ),
    witness(
        "fields-by-length-and-first-letter",
        file(ONE.replace("shape", "sizes"), 8),
        file(ONE.replace("shape", "size"), 8),
        TINY,
    ),
    witness(
        "dtype-compared-in-eight-bytes",
        chain(("F8_E4M3FX", [4])),
        chain(("F8_E4M3X", [4])),
        chain(("F8_E4M3FNUZ", [4])),
    ),
    witness(
        "dtype-cache-by-prefix",
        chain(("F8_E4M3", [4]), ("F8_E4M3FNUZ", [3])),
        chain(("F8_E5M2", [4]), ("F8_E4M3FNUZ", [3])),
        chain(("F8_E4M3", [4]), ("F8_E4M3", [3])),
    ),
    witness(
        "packed-offsets-before-shape",
        file('{"a":{"dtype":"F4","data_offsets":[0,2],"shape":[4]}}', 2),
        file('{"a":{"dtype":"U8","data_offsets":[0,4],"shape":[4]}}', 4),
        file('{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}', 2),
    ),
    witness(
        "scalar-before-its-dtype",
        file('{"a":{"shape":[],"data_offsets":[0,1],"dtype":"U8"}}', 1),
        file('{"a":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"}}', 1),
        file('{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', 1),
    ),
    witness(
        "metadata-between-tensors",
        file(head(u8("a", 0, 4), meta("k", "v"), u8("b", 4, 8)), 8),
        file(head(meta("k", "v"), u8("a", 0, 4), u8("b", 4, 8)), 8),
        file(head(u8("a", 0, 4), u8("b", 4, 8), meta("k", "v")), 8),
    ),
    witness(
        "empty-metadata-not-first",
        file(head(u8("a", 0, 8), meta()), 8),
        file(head(meta(), u8("a", 0, 8)), 8),
        file(head(u8("a", 0, 8), meta("k", "v")), 8),
    ),
    witness(
        "metadata-key-like-a-tensor",
        file(head(meta("a", "b"), u8("a", 0, 8)), 8),
        file(head(meta("b", "a"), u8("a", 0, 8)), 8),
    ),
    witness(
        "name-begins-like-the-reserved-key",
        file(head(u8("__metadata__.weight", 0, 8)), 8),
        file(head(u8("__metadata.weight", 0, 8)), 8),
    ),
    witness(
        "metadata-values-first-only",
        file('{"__metadata__":{"a":"x","b":1}}'),
        file('{"__metadata__":{"b":1,"a":"x"}}'),
        file('{"__metadata__":{"a":"x","b":"1"}}'),
    ),
    witness(
        "metadata-keys-composed",
        file(head(meta("e\u0301", "v"))),
        file(head(meta("\u00e9", "v"))),
        file(head(meta("k", "e\u0301"))),
    ),
    witness(
        "nested-json-rewritten",
        file(head(meta("k", '{"a": 1}'))),
        file(head(meta("k", '{"a":1}'))),
        file(head(meta("k", "a: 1"))),
    ),
    witness("value-length-in-one-byte", file(value("a" * 300)), file(value("a" * 255))),
)

LAYOUT = (
    witness(
        "empty-inside-the-last-tensor",
        file(head(u8("a", 0, 4), u8("b", 4, 8), u8("e", 6, 6)), 8),
        file(head(u8("a", 0, 4), u8("b", 4, 8), u8("e", 2, 2)), 8),
        file(head(u8("a", 0, 4), u8("b", 4, 8), u8("e", 4, 4)), 8),
    ),
    witness(
        "layout-by-sum-and-neighbours",
        file(head(u8("a", 0, 4), u8("b", 8, 12), u8("c", 0, 4)), 12),
        file(head(u8("a", 0, 4), u8("c", 0, 4), u8("b", 8, 12)), 12),
        file(head(u8("a", 0, 4), u8("b", 8, 12), u8("c", 4, 8)), 12),
    ),
    witness(
        "gap-before-wide-elements",
        file(head(u8("a", 0, 5), entry("b", "I64", [1], 8, 16)), 16),
        file(head(u8("a", 0, 5), entry("b", "I32", [1], 8, 12)), 12),
        file(head(u8("a", 0, 5), entry("b", "I64", [1], 7, 15)), 15),
        file(head(u8("a", 0, 8), entry("b", "I64", [1], 8, 16)), 16),
    ),
    witness(
        "rest-unchecked-when-unsorted",
        file(head(u8("b", 4, 8), u8("a", 0, 4)), 11),
        file(head(u8("a", 0, 4), u8("b", 4, 8)), 11),
        file(head(u8("b", 4, 8), u8("a", 0, 4)), 8),
    ),
    witness(
        "tied-ranges-accepted",
        file(head(u8("a", 0, 4), u8("b", 0, 4)), 4),
        file(head(u8("a", 0, 4), entry("b", "I8", [4], 0, 4)), 4),
        file(head(u8("a", 0, 4), entry("b", "U8", [2, 2], 0, 4)), 4),
        file(head(u8("a", 0, 4), u8("b", 4, 8)), 8),
    ),
    witness(
        "reversed-range-of-empty",
        file(head(u8("a", 0, 4), entry("b", "U8", [0], 4, 2)), 4),
        file(head(u8("a", 0, 4), entry("b", "U8", [2], 4, 2)), 4),
        file(head(u8("a", 0, 4), entry("b", "U8", [0], 4, 4)), 4),
    ),
    witness(
        "empty-at-the-end",
        chain(("U8", [4]), ("U8", [0])),
        chain(("U8", [0]), ("U8", [4])),
        chain(("U8", [0])),
    ),
    witness(
        "empty-behind-its-follower",
        file(head(u8("a", 0, 4), u8("e", 0, 0)), 4),
        file(head(u8("e", 0, 0), u8("a", 0, 4)), 4),
        file(head(u8("a", 0, 4), u8("e", 4, 4)), 4),
    ),
    witness(
        "sort-by-low-bits",
        file(head(u8("c", 65540, 65544), u8("a", 0, 100), u8("b", 100, 65540)), 65544),
        file(head(u8("a", 0, 100), u8("b", 100, 65540), u8("c", 65540, 65544)), 65544),
        file(head(u8("c", 6540, 6544), u8("a", 0, 100), u8("b", 100, 6540)), 6544),
    ),
    witness(
        "unaligned-matrix",
        chain(("U8", [1]), ("F32", [1, 1])),
        chain(("U8", [1]), ("F32", [1])),
        chain(("F32", [1, 1]), ("U8", [1])),
    ),
    witness(
        "empties-at-one-place",
        chain(("U8", [0]), ("U8", [0])),
        chain(("U8", [0]), ("U8", [4]), ("U8", [0])),
    ),
    witness(
        "cache-by-place-in-page",
        chain(("U8", [16]), ("U8", [4080]), ("U8", [16])),
        chain(("U8", [16]), ("U8", [4080]), ("U8", [17])),
        chain(("U8", [16]), ("U8", [4084]), ("U8", [16])),
    ),
    witness(
        "index-in-one-byte",
        file(head(*(u8(f"t{place}", place, place + 1) for place in range(300))), 300),
        file(head(*(u8(f"t{place}", place, place + 1) for place in range(256))), 256),
    ),
)

THIRD = (2**64 + 5) // 3
"""Three times this is 5 modulo 2^64, and three times the number before it 2."""

VALUES = (
    witness(
        "leading-zeros-in-later-elements",
        file(ONE.replace("[0,8]", "[0,08]"), 8),
        file(ONE.replace("[0,8]", "[00,8]"), 8),
        file(ONE.replace("[8]", "[08]"), 8),
        TINY,
    ),
    witness(
        "small-dimensions-in-32-bits",
        file(head(entry("a", "U8", [32768, 32768, 4], 0, 0))),
        file(head(entry("a", "U8", [65536, 65536], 0, 0))),
        chain(("U8", [2, 2, 4])),
    ),
    witness(
        "packed-bits-wrap",
        file(head(entry("a", "F4", [2**62], 0, 0))),
        file(head(entry("a", "U8", [2**62], 0, 0))),
        file(head(entry("a", "F4", [4], 0, 2)), 2),
    ),
    witness(
        "wrap-tested-by-smaller",
        file(head(entry("a", "U8", [3, THIRD], 0, 5)), 5),
        file(head(entry("a", "U8", [3, THIRD - 1], 0, 2)), 2),
        chain(("U8", [1, 5])),
    ),
    witness(
        "digits-beyond-a-double",
        file(head(entry("a", "U8", [0, 2**53 + 1], 0, 0))),
        file(head(entry("a", "U8", [0, 2**53 + 2], 0, 0))),
    ),
    witness(
        "leading-one-dropped",
        chain(("U8", [1, 1, 1, 1, 2])),
        chain(("U8", [1, 1, 1, 2])),
        chain(("U8", [2, 1, 1, 1, 1])),
    ),
    witness("ninth-dimension-folded", chain(("U8", [1, 2] * 4 + [1])), chain(("U8", [1, 2] * 4))),
    witness(
        "shape-cache-by-count",
        chain(("U8", [4]), ("U8", [2, 2])),
        chain(("U8", [4]), ("I8", [2, 2])),
        chain(("U8", [4]), ("U8", [2, 3])),
    ),
    witness(
        "scalar-nan-quieted",
        file(head(entry("a", "F32", [], 0, 4)), b"\x01\x00\x80\x7f"),
        file(head(entry("a", "F32", [1], 0, 4)), b"\x01\x00\x80\x7f"),
        file(head(entry("a", "F32", [], 0, 4)), b"\x00\x00\x80\x3f"),
        file(head(entry("a", "F32", [], 0, 4)), b"\x01\x00\xc0\x7f"),
    ),
)

WITNESSES = {each.name: each for each in (*FRAMING, *TEXT, *ENTRIES, *LAYOUT, *VALUES)}
