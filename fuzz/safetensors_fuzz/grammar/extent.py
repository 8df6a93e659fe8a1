"""Variations with similar names, and with large strings, tensors and headers, which reach rare code paths."""

from __future__ import annotations

import random
import unicodedata
from math import prod
from typing import Literal

from safetensors_corpus.features import vocabulary as words
from safetensors_corpus.features.draft import written
from safetensors_corpus.features.entries import (
    NoPlaceError,
    entries,
    free_strings,
    members,
    metadata,
    one,
    shift,
    size,
    some,
    whole,
)
from safetensors_corpus.features.tree import File, Obj, Value, text

from .faults import variation
from .valid import content, entry_tree

EDGES = (15, 16, 17, 23, 24, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257)
"""Lengths of strings, in characters, at which a block or buffer ends or a counter overflows."""
LONG_EDGES = (1023, 1024, 4095, 4096, 4097)
TAILS = (
    b"b", b"\\u0000", b"\\u0000b", b"\xc3\xa9", b"\xc3\x9f", b"e\xcc\x81", b"\xe6\x9d\x83",
    b"\xf0\x9f\x98\x80", b"\\n", b"\\u00e9", b"\\ud83d\\ude00", b"\\ud83d\\uDE00", b" ", b"/", b"\\\\",
)  # fmt: skip
SIZES = (4096, 4096, 8192, 65535, 65536, 65537, 65544, 69632)
"""Sizes of large tensors in bytes. Each one is a multiple of the page size or near the 16-bit limit."""
COUNTS = (255, 256, 257, 300)
"""Numbers of tensors near or above the limit of a one-byte counter."""
HEADERS = (65535, 65536, 65537, 99_992, 100_000, 100_001)
"""Lengths of long headers in bytes, near the 16-bit limit and near a typical fetch size of 100,000 bytes."""
PAGES = (504, 512, 1016, 1024, 4088, 4089, 4096, 4097, 8192)
"""Lengths with which the header, with or without the length prefix, ends at the end of a block."""
WIDE = (2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 2**60 + 1)
"""Dimensions near or above 32 bits, or near or above the 53 bits of a double."""
FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
ACCENTS = ("\u00e9", "e\u0301", "\u212b", "\ufb01", "\ud55c")
"""Strings that change when they are converted to another Unicode normal form."""


def _alike(rng: random.Random, name: str) -> str:
    match rng.randrange(6):
        case 0:
            return name + rng.choice(("", "b", " ", "\0", ".weight", "_1", "é", "e\u0301"))
        case 1:
            return name[: rng.randint(0, max(len(name) - 1, 0))]
        case 2:
            return rng.choice((name.swapcase(), name.upper(), name.capitalize(), name.casefold()))
        case 3:
            return unicodedata.normalize(rng.choice(FORMS), name)
        case 4:
            return rng.choice((" ", "\ufeff", ".", "_", "\0")) + name
        case _:
            return name.ljust(rng.choice(EDGES), "n") + rng.choice(("a", "é", "\0"))


def _decoded(raw: Value) -> str:
    """Decode a plain string. Raises NoPlaceError if the string has escapes, because they may be invalid."""
    found = text(raw).strip(b" \t\r\n")
    if b"\\" in found or not found.startswith(b'"'):
        raise NoPlaceError
    try:
        return found[1:-1].decode()
    except UnicodeDecodeError:
        raise NoPlaceError from None


@variation("HDR-19", "ENT-08")
def near_twin(rng: random.Random, file: File) -> None:
    """Add a tensor with a similar name, or give the names of two tensors a long common prefix."""
    found, rows = whole(file)
    entry = one(rng, found)
    old, how = _decoded(entry.member[0]), rng.random()
    if how < 0.5 and all(len(text(member[0])) < 80 for member in rows):
        old = old.ljust(rng.choice(EDGES), "n") if how < 0.25 else old + rng.choice(ACCENTS)
        if any(_decoded(member[0]) == old for member in rows):
            raise NoPlaceError
        entry.member[0] = written(old)
    forms = [made for form in FORMS if (made := unicodedata.normalize(form, old)) != old]
    name = rng.choice(forms) if forms and how < 0.5 else _alike(rng, old)
    if name == "__metadata__" or any(_decoded(member[0]) == name for member in rows):
        raise NoPlaceError
    begin = len(file.data)
    dtype = rng.choice((entry.dtype, b"U8")) if entry.dtype in words.BITS else b"U8"
    shape = [8] if rng.random() < 0.5 else [1, 8]
    count = size(dtype, shape) or 0
    rows.insert(rng.randint(0, len(rows)), [written(name), entry_tree(dtype, shape, begin, begin + count)])
    file.data += content(rng, dtype, count)


@variation("MET-08", "HDR-19", "MET-10")
def near_keys(rng: random.Random, file: File) -> None:
    """Add a metadata key that resembles another key or a tensor name."""
    rows, member = whole(file)[1], metadata(file)
    if member is None:
        member = [words.RESERVED, Obj([[b'"a"', b'"b"']])]
        rows.insert(rng.randint(0, len(rows)), member)
    if type(member[1]) is not Obj or len(member[1].members) > 8:
        raise NoPlaceError
    pairs = member[1].members
    taken = [_decoded(pair[0]) for pair in pairs]
    names = [_decoded(entry.member[0]) for entry in entries(file)]
    key = (
        rng.choice(names)
        if names and rng.random() < 0.3
        else _alike(rng, rng.choice([*taken, "é", "e\u0301"]))
    )
    if key in (*taken, "dtype", "shape", "data_offsets"):
        raise NoPlaceError
    pairs.insert(rng.randint(0, len(pairs)), [written(key), b'"%b"' % rng.choice(words.META_VALUES)])


@variation("HDR-19", "ENT-10", "MET-10", "HDR-15")
def long_text(rng: random.Random, file: File) -> None:
    """Make a name or metadata string as long as a block, with a random character at its end."""
    spots = [s for s in free_strings(file) if s[1] == 1 or b"\\" not in text(s[0][0])]
    member, place = one(rng, spots)
    if any(len(text(holder[at])) > 200 for holder, at in spots):
        raise NoPlaceError
    tail = rng.choice(TAILS)
    want = rng.choice(EDGES if rng.random() < 0.95 else LONG_EDGES) - rng.choice((0, 0, 1, len(tail)))
    # The number makes names distinct.
    head = b"%d" % rng.randrange(1000)
    member[place] = b'"%b%b%b"' % (head, rng.choice((b"n", b"n", b"/", b"\xc3\xa9")) * max(want, 1), tail)


@variation("FRM-08", "LIM-10")
def header_of_a_page(rng: random.Random, file: File) -> None:
    """Make the header as long as a block, without padding."""
    entry = some(rng, file, lambda entry: b"\\" not in text(entry.member[0]))
    name = text(entry.member[0]).strip(b" \t\r\n")
    file.padding = b""
    missing = rng.choice(PAGES if rng.random() < 0.5 else PAGES[:4]) - len(file.header())
    if missing <= 0 or len(name) > 60:
        raise NoPlaceError
    long = name[:-1] + b"n" * missing + b'"'
    if long in [member[0] for member in members(file)]:
        raise NoPlaceError
    entry.member[0] = long


@variation("FRM-08", "LIM-10", rare=True)
def header_of_many_pages(rng: random.Random, file: File) -> None:
    """Make the header about as long as a fetch, by adding padding or a long metadata value."""
    if file.raw is not None or len(file.header()) > 4096:
        raise NoPlaceError
    want, member = rng.choice(HEADERS), metadata(file)
    file.padding = b""
    if member is not None and type(member[1]) is Obj and member[1].members and rng.random() < 0.5:
        pair = rng.choice(member[1].members)
        pair[1] = b'""'
        pair[1] = b'"%b"' % (b"v" * (want - len(file.header())))
    else:
        file.padding = b" " * (want - len(file.header()))


@variation("SHP-11", "OFF-05", "DAT-06", rare=True)
def large_tensor(rng: random.Random, file: File) -> None:
    """Add one or two page-sized tensors before or after the others."""
    found, rows = whole(file)
    if len(file.data) > 4096 or any(e.begin > e.end for e in found):
        raise NoPlaceError
    count = rng.choice(SIZES)
    front = rng.random() < 0.5
    for number in range(2 if count <= 8192 and rng.random() < 0.5 else 1):
        name = b'"large%d"' % number
        if any(member[0] == name for member in rows):
            raise NoPlaceError
        begin, fresh = 0 if front else len(file.data), rng.randbytes(count)
        if front:
            file.data = fresh + file.data
            shift(file, 0, count)
        else:
            file.data += fresh
        shape = rng.choice(([count], [1, count], [count // 2, 2] if count % 2 == 0 else [count]))
        rows.insert(rng.randint(0, len(rows)), [name, entry_tree(b"U8", shape, begin, begin + count)])


@variation("ENT-11", "DAT-06", rare=True)
def hundreds_of_tensors(rng: random.Random, file: File) -> None:
    """Add hundreds of small tensors, so that a one-byte counter overflows."""
    rows, begin = whole(file)[1], len(file.data)
    if len(rows) > 8:
        raise NoPlaceError
    count = rng.choice(COUNTS)
    more: list[list[Value]]
    more = [[b'"h%d"' % at, entry_tree(b"U8", [1], begin + at, begin + at + 1)] for at in range(count)]
    if rng.random() < 0.3:
        rng.shuffle(more)
    rows += more
    file.data += rng.randbytes(count)


@variation("SHP-08", "SHP-04")
def wide_dimension(rng: random.Random, file: File) -> None:
    """Add an empty tensor with one dimension near or above 32 or 53 bits."""
    found, rows = whole(file)
    dtype = rng.choice((b"U8", b"F32", b"F4", b"BOOL"))
    wide = rng.choice([dim for dim in WIDE if dim * words.BITS[dtype] < words.U64])
    shape = rng.choice(([0, wide], [wide, 0], [0, 1, wide], [1, wide, 0]))
    at = rng.choice([0, *(entry.end for entry in found)])
    if any(member[0] == b'"wide"' for member in rows):
        raise NoPlaceError
    rows.insert(rng.randint(0, len(rows)), [b'"wide"', entry_tree(dtype, shape, at, at)])


_NANS = {
    b"F16": (b"\x01\x7c", b"\x00\xfc", b"\x00\x80"),
    b"BF16": (b"\x81\x7f", b"\x80\xff", b"\x00\x80"),
    b"F32": (b"\x01\x00\x80\x7f", b"\x01\x00\xa0\xff", b"\x00\x00\x80\x7f", b"\x00\x00\x00\x80"),
    b"F64": (b"\x01\0\0\0\0\0\xf0\x7f", b"\0\0\0\0\0\0\xf0\xff", b"\0\0\0\0\0\0\0\x80"),
}
"""Bytes that represent signalling NaNs, infinities and negative zero (DAT-01, DAT-04)."""


@variation("DAT-04", "DAT-01")
def special_elements(rng: random.Random, file: File) -> None:
    """Fill a tensor with values that arithmetic changes, or with bytes that resemble a header."""
    found = [e for e in entries(file) if 0 < e.end - e.begin <= 4096 and e.end <= len(file.data)]
    entry = one(rng, [e for e in found if e.dtype != b"BOOL"])
    unit = rng.choice(_NANS.get(entry.dtype, (b" ", b"}", b"\0", b"\xff", b'"')))
    count = entry.end - entry.begin
    fresh = (unit * count)[:count]
    file.data = file.data[: entry.begin] + fresh + file.data[entry.end :]


@variation("SHP-10", rare=True)
def rank_beyond_eight(rng: random.Random, file: File) -> None:
    """Give a tensor nine to twelve dimensions."""
    entry = some(rng, file, lambda entry: len(entry.shape) <= 8 and prod(entry.shape) < 2**31)
    shape = [*entry.shape, *[1] * (rng.randint(9, 12) - len(entry.shape))]
    if rng.random() < 0.5:
        rng.shuffle(shape)
    entry.reshape(shape)
