"""Features of the header layout: whitespace, padding, order, and escapes in keys and dtypes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from . import vocabulary as words
from .draft import Draft, Row, exchange
from .feature import Feature, of_file, of_parts, of_tensors
from .tree import (
    Arr,
    File,
    Mutation,
    NoPlaceError,
    Obj,
    Value,
    copy,
    decode_string,
    entries,
    escape,
    header,
    members,
    metadata,
    one,
    some,
    text,
    trees,
    variation,
    written,
)

BLANKS = b" \t\n\r"
FIELDS = tuple(map(decode_string, words.FIELDS))
LONG_PADDING = 8
"""Smallest number of spaces that cannot be explained by padding to a multiple of 8."""
PAGES = (504, 512, 1016, 1024, 4088, 4089, 4096, 4097, 8192)
"""Header lengths for which the header, with or without the length prefix, ends at a block boundary."""
HEADERS = (65535, 65536, 65537, 99_992, 100_000, 100_001)
"""Lengths of long headers in bytes, near the 16-bit limit and near a typical fetch size of 100,000 bytes."""
_BREAKS = re.compile(rb"[\t\r\n]")
_SPACES = re.compile(rb"[\t\r\n ][:,\]}]|[\[{][\t\r\n ]")
"""Matches spaces in unusual positions. Matches inside strings are harmless here."""


@variation()
def space_between_tokens(rng: random.Random, file: File) -> None:
    """Add whitespace where JSON allows it."""
    root = header(file)
    space, share = rng.choice(words.SPACES), rng.choice((0.1, 1.0))
    if rng.random() < 0.1:  # longer than the lookahead of readers
        space, share = rng.choice(words.LONG_SPACES), 0.1
    for tree in trees(file):
        if tree is not root and rng.random() < share:
            tree.head += space
            tree.foot = space + tree.foot if type(tree) is Obj else tree.foot
        if type(tree) is Obj:
            for member in tree.members:
                for place, half in enumerate(member):
                    if type(half) is bytes and rng.random() < share:
                        member[place] = space + half + space
        elif type(tree) is Arr:
            for at, item in enumerate(tree.items):
                if type(item) is bytes and rng.random() < share:
                    tree.items[at] = rng.choice((space + item, item + space))


@variation("DAT-07")
def other_order(rng: random.Random, file: File) -> bool:
    """Shuffle the members of the header."""
    rng.shuffle(members(file))
    return len(members(file)) > 1


@variation()
def other_field_order(rng: random.Random, file: File) -> None:
    """Shuffle the fields of one entry, or the fields of all entries in the same way."""
    found = entries(file)
    for entry in found if found and rng.random() < 0.3 else [one(rng, found)]:
        rng.shuffle(entry.obj.members)


@variation("HDR-04")
def other_padding(rng: random.Random, file: File) -> None:
    """Change the number of padding spaces. The data may then begin at any offset."""
    file.padding = b" " * rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 64, 200))


@variation("LIM-10")
def long_header(rng: random.Random, file: File) -> bool:
    """Pad the header to a length at the limit of an integer type or buffer."""
    want = rng.choice((255, 256, 257, 511, 512, 1023, 1024, 1025, 4095, 4096, 4097))
    file.padding = b""
    file.padding = b" " * max(want - len(file.header()), 0)
    return file.raw is None and bool(file.padding)


@variation("LIM-10")
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


@variation("LIM-10", rare=True)
def header_of_many_pages(rng: random.Random, file: File) -> None:
    """Make the header about as long as the block that remote readers fetch first.

    The extra length is padding, a long name or a long metadata value.
    """
    if file.raw is not None or len(file.header()) > 4096:
        raise NoPlaceError
    want, member = rng.choice(HEADERS), metadata(file)
    file.padding = b""
    if member is not None and type(member[1]) is Obj and member[1].members and rng.random() < 0.5:
        pair = rng.choice(member[1].members)
        pair[1] = b'""'
        pair[1] = b'"%b"' % (b"v" * (want - len(file.header())))
    elif (found := entries(file)) and rng.random() < 0.3:
        entry = rng.choice(found)
        entry.member[0] = b'""'
        entry.member[0] = b'"%b"' % (b"n" * (want - len(file.header())))
    else:
        file.padding = b" " * (want - len(file.header()))


@variation()
def escaped_dtype(rng: random.Random, file: File) -> bool:
    """Write one character of a dtype as an escape sequence."""
    entry = some(rng, file)
    return any(escape(rng, member, 1) for member in entry.obj.members if member[0] == b'"dtype"')


@variation("ENT-05")
def escaped_field(rng: random.Random, file: File) -> bool:
    """Write one character of a field name as an escape sequence."""
    entry = some(rng, file)
    return escape(rng, rng.choice(entry.obj.members), 0)


@variation()
def escaped_reserved(rng: random.Random, file: File) -> bool:
    """Write one character of the reserved key as an escape sequence."""
    member = metadata(file)
    return member is not None and escape(rng, member, 0)


def _escape(
    name: str, rule: str, parts: Callable[[Draft], list[list[Value]]], place: int, put_in: Mutation
) -> Feature:
    """Return the feature for an escape in the key (0) or value (1) of a member."""

    def escaped(member: list[Value]) -> bool:
        raw = member[place]
        return type(raw) is bytes and b"\\" in raw

    def unescape(_: Draft, member: list[Value]) -> None:
        exchange(member, place, written(decode_string(member[place])))

    return of_parts(name, rule, parts, escaped, unescape, put_in)


def _dtypes(draft: Draft) -> list[list[Value]]:
    return [row.field("dtype") for row in draft.rows]


def _fields(draft: Draft) -> list[list[Value]]:
    return [member for row in draft.rows for member in row.fields.members]


def _reserved(draft: Draft) -> list[list[Value]]:
    return [] if draft.metadata is None else [draft.metadata]


def _usual_order(row: Row) -> list[list[Value]]:
    return sorted(row.fields.members, key=lambda member: FIELDS.index(decode_string(member[0])))


def _sort_fields(row: Row) -> None:
    row.fields.members[:] = _usual_order(row)


def _strip(root: Value) -> None:
    for tree in trees(File(root)):
        tree.head, tree.foot = tree.head.strip(BLANKS), tree.foot.strip(BLANKS)
        for holder in tree.members if type(tree) is Obj else [tree.items] if type(tree) is Arr else []:
            holder[:] = [item.strip(BLANKS) if type(item) is bytes else item for item in holder]


def _has_whitespace(draft: Draft) -> bool:
    plain = copy(draft.root)
    _strip(plain)
    return text(plain) != text(draft.root)


def _shorten_padding(draft: Draft) -> None:
    draft.spaces %= LONG_PADDING


def _remove_padding(draft: Draft) -> None:
    draft.spaces, draft.bare = 0, True


def _round_length(draft: Draft) -> None:
    draft.rest = 0


HEADER = (
    _escape("an escape in a dtype", "DTY-04", _dtypes, 1, escaped_dtype),
    _escape("an escape in the name of a field", "HDR-10", _fields, 0, escaped_field),
    _escape("an escape in the key __metadata__", "MET-06", _reserved, 0, escaped_reserved),
    of_tensors(
        "fields in an unusual order",
        "ENT-06",
        lambda t: t.fields.members != _usual_order(t),
        _sort_fields,
        other_field_order,
    ),
    of_file(
        "whitespace between tokens",
        "HDR-08",
        _has_whitespace,
        lambda d: _strip(d.root),
        space_between_tokens,
    ),
    of_file(
        "8 or more spaces after the header object",
        "HDR-03",
        lambda d: d.spaces >= LONG_PADDING,
        _shorten_padding,
        long_header,
    ),
    of_file("spaces after the header object", "HDR-03", lambda d: d.spaces, _remove_padding, other_padding),
    of_file(
        "a header whose length is not a multiple of 8",
        "FRM-08",
        lambda d: d.rest,
        _round_length,
        other_padding,
    ),
    of_file("escapes in header strings", "HDR-15", lambda d: b"\\" in d.header(), None),
    of_file(
        "line breaks or tabs between header tokens", "HDR-08", lambda d: _BREAKS.search(d.header()), None
    ),
    of_file("unusual spaces in the header", "HDR-08", lambda d: _SPACES.search(d.header()), None),
)
