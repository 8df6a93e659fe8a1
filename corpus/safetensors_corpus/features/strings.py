"""Features of strings: tensor names, and keys and values of the metadata."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

from . import vocabulary as words
from .draft import Draft, Row, exchange, fold_name
from .feature import Feature, of_file, of_parts
from .header import FIELDS, header_of_a_page, header_of_many_pages
from .tree import (
    File,
    Mutation,
    NoPlaceError,
    Obj,
    Value,
    content,
    decode_string,
    entries,
    entry_tree,
    escape,
    free_strings,
    header,
    into_string,
    members,
    metadata,
    metadata_tree,
    one,
    size,
    some,
    text,
    variation,
    whole,
    written,
)

LONG = 60
EDGES = (15, 16, 17, 23, 24, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257)
"""Lengths of strings, in characters, at which a block or buffer ends or a counter overflows."""
LONG_EDGES = (1023, 1024, 4095, 4096, 4097)
TAILS = (
    b"b", b"\\u0000", b"\\u0000b", b"\xc3\xa9", b"\xc3\x9f", b"e\xcc\x81", b"\xe6\x9d\x83",
    b"\xf0\x9f\x98\x80", b"\\n", b"\\u00e9", b"\\ud83d\\ude00", b"\\ud83d\\uDE00", b" ", b"/", b"\\\\",
)  # fmt: skip
FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
ACCENTS = ("\u00e9", "e\u0301", "\u212b", "\ufb01", "\ud55c")
"""Strings that change when they are converted to another Unicode normal form."""
_UNIT = re.compile(r"\\u[dD][89abAB]..\\u....|\\u....|\\.|.", re.DOTALL)
"""Matches one character of a raw string: an escaped surrogate pair, an escape, or the character itself."""
_ACTIVE = re.compile(r"[/\\%{}\[\]$<>`|;*?]|\.\.|^~|^__|^-?[0-9]+$")
"""Matches parts of names that some programs treat as a path, pattern, number, code or inherited property."""
_PLAIN = re.compile(r"[A-Za-z0-9_.]+")


@variation()
def other_name(rng: random.Random, file: File) -> None:
    """Rename a tensor."""
    found = entries(file)
    entry = rng.choice(found) if found else None
    name = b'"%b"' % rng.choice(words.NAMES)
    if entry is None or name in [member[0] for member in members(file)]:
        raise NoPlaceError
    entry.member[0] = name


@variation()
def escaped_name(rng: random.Random, file: File) -> bool:
    """Write one character of a name as an escape sequence."""
    return escape(rng, some(rng, file).member, 0)


@variation()
def escapes(rng: random.Random, file: File) -> None:
    """Put an escape sequence into a name or into the metadata."""
    # The reserved key may be written with escapes, so do not change keys that contain escapes.
    spots = [s for s in free_strings(file) if s[1] == 1 or b"\\" not in text(s[0][0])]
    into_string(rng, *one(rng, spots), rng.choice(words.ESCAPED))


@variation()
def long_name(rng: random.Random, file: File) -> None:
    """Give a tensor a long name."""
    entry = some(rng, file)
    if any(len(member[0]) > 60 for member in members(file) if type(member[0]) is bytes):
        raise NoPlaceError
    length = rng.choice((64, 127, 128, 255, 256, 257, 1024))
    entry.member[0] = b'"%b"' % (b"n" * length)


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


@variation()
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


@variation("MET-08")
def with_metadata(rng: random.Random, file: File) -> None:
    """Add or remove the metadata."""
    rows, member = header(file).members, metadata(file)
    if member is not None:
        rows.remove(member)
    else:
        whole(file)  # raises NoPlaceError if the metadata key has an unusual spelling
        rows.insert(rng.randint(0, len(rows)), [words.RESERVED, metadata_tree(rng)])


@variation()
def other_metadata_value(rng: random.Random, file: File) -> None:
    """Replace the value of a metadata key."""
    member = metadata(file)
    if member is None or type(member[1]) is not Obj or not member[1].members:
        raise NoPlaceError
    rng.choice(member[1].members)[1] = b'"%b"' % rng.choice(words.META_VALUES)


@variation("MET-08")
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


@variation()
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


@variation(rare=True)
def text_across_page(rng: random.Random, file: File) -> None:
    """Let a character of several bytes cross a multiple of 4,096 bytes of the header or the file."""
    spots = [s for s in free_strings(file) if s[1] == 1 or b"\\" not in text(s[0][0])]
    member, place = one(rng, spots)
    if any(len(text(holder[at])) > 200 for holder, at in spots):
        raise NoPlaceError
    head, tail = b"%d" % rng.randrange(1000), rng.choice([tail for tail in TAILS if len(tail) > 1])
    member[place] = b'"%b%b"' % (head, tail)
    start = file.header().index(b'"%b%b"' % (head, tail)) + 1 + len(head)
    fill = rng.choice((4096 - 8, 4096, 8192)) - start - rng.randint(1, len(tail) - 1)
    member[place] = b'"%b%b%b"' % (head, b"n" * max(fill, 0), tail)


class Unit(NamedTuple):
    """One character of a string in its raw and its decoded form."""

    raw: str
    char: str

    @property
    def control(self) -> bool:
        return self.char < " "

    @property
    def syntax(self) -> bool:
        return self.char in '"\\'

    @property
    def escaped(self) -> bool:
        return self.raw != self.char


@lru_cache(8)  # every feature examines the same strings, which may be long
def units(raw: bytes) -> tuple[Unit, ...]:
    inner = raw.strip(b" \t\n\r").decode()[1:-1]
    return tuple(Unit(x, json.loads(f'"{x}"') if x[0] == "\\" else x) for x in _UNIT.findall(inner))


String = tuple[list[Value], int]
"""A string as a member and its place in the member."""
Places = Callable[[Draft], list[String]]


def _names(draft: Draft) -> list[String]:
    return [(row.member, 0) for row in draft.rows]


def _metadata(draft: Draft) -> list[String]:
    return [(pair, place) for pair in draft.pairs for place in (0, 1)]


def _keys(draft: Draft) -> list[String]:
    return [(pair, 0) for pair in draft.pairs]


def _strings(draft: Draft) -> list[String]:
    return [*_names(draft), *_metadata(draft)]


def _raw(string: String) -> bytes:
    raw = string[0][string[1]]
    assert type(raw) is bytes
    return raw


def _put(draft: Draft, string: String, raw: bytes) -> None:
    member, place = string
    if place == 0:
        other = draft.free(decode_string(raw), member)
        raw = raw if decode_string(other) == decode_string(raw) else other
    exchange(member, place, raw)


def _escaped_a(unit: Unit) -> str:
    return "\\u0061" if unit.escaped else "a"


def _respelled(
    name: str,
    rule: str,
    places: Places,
    chosen: Callable[[Unit], bool],
    *put_in: Mutation,
    spell: Callable[[Unit], str] = _escaped_a,
) -> Feature:
    """Return the feature for strings that contain ``chosen`` characters, which ``spell`` replaces."""

    def respell(draft: Draft, string: String) -> None:
        spelled = "".join(spell(u) if chosen(u) else u.raw for u in units(_raw(string)))
        _put(draft, string, f'"{spelled}"'.encode())

    return of_parts(name, rule, places, lambda s: any(map(chosen, units(_raw(s)))), respell, *put_in)


def _reworded(
    name: str,
    rule: str,
    places: Places,
    chosen: Callable[[str], object],
    *put_in: Mutation,
    reword: Callable[[str], str] = lambda _: "a",
) -> Feature:
    """Return the feature for ``chosen`` strings, which ``reword`` replaces."""
    return of_parts(
        name,
        rule,
        places,
        lambda s: chosen(decode_string(_raw(s))),
        lambda draft, s: _put(draft, s, written(reword(decode_string(_raw(s))))),
        *put_in,
    )


def _similar_names(draft: Draft) -> list[Row]:
    """Return the tensors whose names resemble an earlier name."""
    first = {fold_name(row.name): row for row in reversed(draft.rows)}
    return [row for row in draft.rows if first[fold_name(row.name)] is not row]


def _rename(draft: Draft, row: Row) -> None:
    _put(draft, (row.member, 0), draft.free(f"other{draft.rows.index(row)}"))


def _has_huge_name(draft: Draft) -> bool:
    return any(len(decode_string(_raw(s))) >= 256 for s in (*_names(draft), *_keys(draft)))


def _has_empty_map(draft: Draft) -> bool:
    return draft.metadata is not None and not draft.pairs


def _fill_map(draft: Draft) -> None:
    draft.pairs.append([b'"a"', b'"a"'])


def _keep_first_key(draft: Draft) -> None:
    del draft.pairs[1:]


def _remove_metadata(draft: Draft) -> None:
    draft.members.remove(draft.metadata or [])


_SPELLING = (
    _respelled(
        r"an escape of two characters, such as \n",
        "HDR-15",
        _strings,
        lambda u: len(u.raw) == 2,
        escapes,
        spell=lambda u: f"\\u{ord(u.char):04x}",
    ),
    _respelled(
        "an escaped character that does not need an escape",
        "HDR-15",
        _strings,
        lambda u: u.escaped and not u.control and not u.syntax,
        escaped_name,
        spell=lambda u: u.char,
    ),
    _respelled("a control character in a name", "ENT-08", _names, lambda u: u.control, other_name),
    _respelled("a quote or backslash in a name", "ENT-08", _names, lambda u: u.syntax, other_name),
    _respelled("a control character in the metadata", "MET-04", _metadata, lambda u: u.control, escapes),
    _respelled("a quote or backslash in the metadata", "MET-04", _metadata, lambda u: u.syntax, escapes),
    _respelled(
        "an escape in a name or in the metadata",
        "HDR-15",
        _strings,
        lambda u: u.escaped,
        escapes,
        spell=lambda u: "a" if u.control or u.syntax else u.char,
    ),
)
_NAMES = (
    of_parts(
        "names that differ only in case or Unicode normal form",
        "HDR-19",
        _similar_names,
        lambda _: True,
        _rename,
        near_twin,
    ),
    _respelled("non-ASCII names", "ENT-08", _names, lambda u: u.char > "\x7f", other_name),
    _reworded("a tensor with an empty name", "ENT-07", _names, lambda s: not s, other_name),
    of_file("a name of 256 or more characters", "ENT-10", _has_huge_name, None, header_of_a_page),
    _reworded("a long name", "ENT-10", _names, lambda s: len(s) > LONG, long_name, reword=lambda s: s[:4]),
    _reworded(
        "a name similar to __metadata__",
        "MET-05",
        _names,
        lambda s: "metadata" in s.casefold().replace("_", ""),
        other_name,
    ),
    _reworded(
        "a name that looks like a path, a number, a pattern or code",
        "ENT-09",
        _names,
        lambda s: s in words.SPECIAL_NAMES or _ACTIVE.search(s),
        other_name,
    ),
    _reworded(
        "a name with dots",
        "ENT-09",
        _names,
        lambda s: "." in s,
        other_name,
        reword=lambda s: s.replace(".", "_"),
    ),
    _reworded(
        "a name with characters other than letters, digits and underscores",
        "ENT-08",
        _names,
        lambda s: s and not _PLAIN.fullmatch(s.replace(".", "_")),
        other_name,
    ),
)
_METADATA = (
    _respelled("non-ASCII metadata", "MET-04", _metadata, lambda u: u.char > "\x7f", other_metadata_value),
    _reworded("an empty string in the metadata", "MET-04", _metadata, lambda s: not s, other_metadata_value),
    _reworded(
        "a metadata key that is also the name of an entry field",
        "MET-07",
        _keys,
        lambda s: s in FIELDS,
        with_metadata,
    ),
    _reworded("the key format in the metadata", "MET-09", _keys, lambda s: s == "format", with_metadata),
    _reworded(
        "a long string in the metadata",
        "MET-10",
        _metadata,
        lambda s: len(s) > LONG,
        long_text,
        text_across_page,
        header_of_many_pages,
        reword=lambda s: s[:4],
    ),
    _reworded(
        "a metadata string with characters other than letters, digits, dots and underscores",
        "MET-04",
        _metadata,
        lambda s: s and not _PLAIN.fullmatch(s),
        other_metadata_value,
    ),
    of_file("several keys in the metadata", "MET-10", lambda d: len(d.pairs) > 1, _keep_first_key, near_keys),
    of_file("an empty metadata map", "MET-03", _has_empty_map, _fill_map, with_metadata),
    of_file("metadata", "MET-01", lambda d: d.metadata is not None, _remove_metadata, with_metadata),
)
STRINGS = (*_SPELLING, *_NAMES, *_METADATA)
