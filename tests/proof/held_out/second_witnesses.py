"""A witness for each reader of ``proof.held_out.second``, made by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

BIG = 2**32
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


def placed(place: int, raw: bytes | str) -> bytes:
    """Return a file whose metadata value ends in ``raw``, which begins at a place of the header."""
    before, behind = value("|").encode().split(b"|")
    ends = raw.encode() if isinstance(raw, str) else raw
    return file(before + b"a" * (place - len(before)) + ends + behind)


def fields(*members: str, data: int = 0) -> bytes:
    """Return a file of one entry, whose members are given as they are spelled."""
    return file(f'{{"a":{head(*members)}}}', data)


def shaped(shape: str, size: int = 0, dtype: str = "U8") -> bytes:
    """Return a file of one tensor of so many bytes, whose shape is given as it is spelled."""
    return fields(f'"dtype":"{dtype}"', f'"shape":{shape}', f'"data_offsets":[0,{size}]', data=size)


def number_at(place: int) -> bytes:
    """Return a file with a dimension of two digits at a place of the header."""
    member = u8("t", 0, 12)
    before = head(meta("k", "|"), member).index("[12]") + 1 - len("|")
    return file(head(meta("k", "a" * (place - before)), member), 12)


def empty(name: str, place: int = 0) -> str:
    return entry(name, "U8", [0], place, place)


def empties(count: int, *members: str) -> bytes:
    return file(head(*members, *(empty(f"t{number}") for number in range(count))))


def named(*names: str) -> bytes:
    """Return a file of empty tensors with these names, spelled as they are given."""
    return file(head(*(empty("?").replace("?", name, 1) for name in names)))


def codes(*dtypes: str) -> bytes:
    """Return a file of one tensor of one byte for each dtype."""
    members = [entry(f"t{at}", dtype, [1], at, at + 1) for at, dtype in enumerate(dtypes)]
    return file(head(*members), len(dtypes))


def ranges(*ends: tuple[int, int], data: bytes | int) -> bytes:
    """Return a file of tensors a, b, c ... with these ranges."""
    return file(head(*(u8(name, *pair) for name, pair in zip("abcdefgh", ends, strict=False))), data)


def one(size: int, start: int | None = None) -> bytes:
    """Return a file of one tensor, whose bytes begin so far behind a multiple of 512, or anywhere."""
    header = head(u8("a", 0, size))
    return file(header if start is None else to(header, 512, start - 8), size)


def halved(bit: int) -> bytes:
    """Return a file of a header of 50 bytes whose length has a bit of the upper half set, too."""
    return file("{}".ljust(50), length=50 | bit << 32)


def nine(rank: int) -> bytes:
    return shaped(str([2] * rank), 2**rank)


WITNESSES = {
    each.name: each
    for each in (
        witness(
            "short-read-behind-first-block",
            file("{}".ljust(2000), length=2010),
            file("{}".ljust(100), length=110),
            file("{".ljust(2000), length=2010),
            file("{}".ljust(2000)),
        ),
        witness("halves-ored", halved(2), halved(1), halved(4), halved(0)),
        witness(
            "zero-length-map",
            file("{}".ljust(4088)),
            file("{}".ljust(4087)),
            file(head(u8("a", 0, 1000)).ljust(3088), 1000),
        ),
        witness("brace-sought-in-the-tail", file("{}" + " " * 64), file("{}" + " " * 63)),
        witness(
            "padding-behind-eight-spaces",
            file("{}" + " " * 8 + "\0"),
            file("{}" + " " * 7 + "\0"),
            file("{}" + " " * 9),
        ),
        witness(
            "second-byte-across-chunks",
            placed(1023, b"\xed\xa0\x80"),
            placed(1022, b"\xed\xa0\x80"),
            placed(1023, b"\xed\x9f\x80"),
            placed(1023, b"\xed\xc0\x80"),
        ),
        witness(
            "mark-before-string", file(value("\ufeffx")), file(value("x\ufeff")), file(value(r"\ufeffx"))
        ),
        witness("last-high-half", file(value(r"\udbff\udc00")), file(value(r"\udbfe\udfff"))),
        witness(
            "backslash-across-blocks",
            placed(63, r"\"b"),
            placed(62, r"\"b"),
            placed(63, r"\n"),
            placed(63, r"\\b"),
        ),
        witness("first-escape-checked", file(value(r"\n\x")), file(value(r"\x\n")), file(value(r"\n\n"))),
        witness(
            "encoder-off-by-one",
            file(value(r"\ud800\udc00")),
            file(value(r"\u0081\u0801\ud800\udc01")),
            file(value("\x80\u0800\U00010000")),
        ),
        witness("return-behind-number", shaped("[1\r]", 1), shaped("[1\n]", 1), shaped("[1 \r]", 1)),
        witness("number-across-chunks", number_at(2047), number_at(2046), number_at(2048)),
        witness(
            "wrap-compared-with-before",
            shaped("[0,30000000000000000000]"),
            shaped("[0,18446744073709551616]"),
            shaped("[30000000000000000000]"),
        ),
        witness(
            "sorted-by-spelling",
            named("ab", "_", r"\u0061b"),
            named("ab", r"\u0061b"),
            named("ab", "_", "ab"),
            named("ab", "_", r"\u0061c"),
        ),
        witness(
            "unset-looks-empty",
            fields('"dtype":"U8"', '"shape":[]', '"shape":[1]', '"data_offsets":[0,1]', data=1),
            fields('"dtype":"U8"', '"shape":[1]', '"shape":[]', '"data_offsets":[0,1]', data=1),
        ),
        witness(
            "field-by-length-and-letter",
            fields('"dtypo":"U8"', '"shape":[1]', '"data_offsets":[0,1]', data=1),
            fields('"Dtype":"U8"', '"shape":[1]', '"data_offsets":[0,1]', data=1),
            fields('"dtyp":"U8"', '"shape":[1]', '"data_offsets":[0,1]', data=1),
        ),
        witness("compared-as-c-strings", named(r"a\u0000b", r"a\u0000c"), named(r"a\u0000b", r"b\u0000c")),
        witness("name-length-in-a-byte", named("n" * 256), named("n" * 255), named("")),
        witness(
            "full-table-without-metadata", empties(16), empties(15), empties(17), empties(16, meta("k", "v"))
        ),
        witness("two-orders-of-names", named("\ue000", "\U00010000"), named("\ue000"), named("\U00010000")),
        witness("cut-at-longest-code", codes("F8_E4M3FNUZ2"), codes("U82"), codes("F8_E4M3FNUZ")),
        witness("four-letters-cached", codes("F8_E4M3", "F8_E5M2"), codes("F8_E4M3", "F8_E4M3", "U8")),
        witness("eighths-first", shaped("[12]", 6, "F4"), shaped("[16]", 8, "F4"), shaped("[12]", 12)),
        witness(
            "comma-behind-spilled-shape",
            shaped("[1,1,1,1,1,]", 1),
            shaped("[1,1,1,1,]", 1),
            shaped("[1,1,1,1,1]", 1),
        ),
        witness(
            "unrolled-product",
            shaped(f"[{BIG},{BIG},1,1]"),
            shaped(f"[{BIG},{BIG}]"),
            shaped(f"[{BIG},1,1,1,{BIG},1,1,1]"),
        ),
        witness("grid-limit", shaped("[1,65536]", 65536), shaped("[0,65536]"), shaped("[65536,1]", 65536)),
        witness("row-of-no-bytes", shaped("[2,0]"), shaped("[0,2]")),
        witness("leading-dimensions-folded", nine(9), nine(8)),
        witness(
            "empty-ones-vouch",
            ranges((0, 4), (2, 2), (2, 2), data=4),
            ranges((0, 4), (2, 2), (3, 3), data=4),
            ranges((0, 2), (2, 2), (2, 2), (2, 4), data=4),
        ),
        witness(
            "zeros-before-aligned",
            ranges((0, 5), (8, 9), data=bytes(9)),
            ranges((0, 5), (8, 9), data=b"\1" * 9),
            ranges((0, 5), (7, 9), data=bytes(9)),
        ),
        witness(
            "chain-followed",
            ranges((0, 8), (2, 6), data=8),
            ranges((0, 8), (4, 12), data=12),
            ranges((0, 8), (0, 8), data=8),
            ranges((0, 2), (2, 6), (6, 8), data=8),
        ),
        witness(
            "ties-by-name",
            file(head(u8("a", 0, 4), empty("b")), 4),
            file(head(u8("b", 0, 4), empty("a")), 4),
            file(head(u8("a", 0, 4), empty("b", 4)), 4),
        ),
        witness("direct-second-block", one(20000, 100), one(20000, 0), one(16000, 100)),
        witness(
            "batched-in-header-order",
            ranges((3, 7), (2, 3), (1, 2), (0, 1), data=7),
            ranges((0, 1), (1, 2), (2, 3), (3, 7), data=7),
            ranges((2, 6), (1, 2), (0, 1), data=6),
        ),
        witness("tail-without-pair", one(66), one(64), one(6), one(68)),
        witness("last-full-chunk-not-flushed", one(4096), one(4095), one(4097)),
        witness(
            "empty-value-looks-absent",
            file('{"__metadata__":{"k":"","k":"v"}}'),
            file('{"__metadata__":{"k":"v","k":""}}'),
        ),
        witness(
            "long-value-cut-by-characters",
            file(value("é" * 12)),
            file(value("é" * 11)),
            file(value("e" * 24)),
        ),
        witness(
            "value-by-prefix", file(head(meta("ab", "1", "a", "2"))), file(head(meta("a", "1", "ab", "2")))
        ),
    )
}
COMMON = (
    chain(("F32", [2, 3]), ("I64", []), ("U8", [0]), ("I8", [5])),
    file("{}"),
    file("{}", 1),
    b"",
    bytes(8),
)
"""What every reader answers rightly."""
