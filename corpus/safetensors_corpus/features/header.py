"""Features of the header layout, of tensor names and of metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from .draft import Draft, decode_string, exchange, fold_name, written
from .entries import trees
from .feature import Feature, Remover, change
from .tree import Arr, File, Obj, Value
from .vocabulary import SPECIAL_NAMES

BLANKS = b" \t\n\r"
LONG_PADDING = 8
"""Smallest number of spaces that cannot be explained by padding to a multiple of 8."""
FIELDS = ("dtype", "shape", "data_offsets")
LONG = 60
_UNIT = re.compile(r"\\u[dD][89abAB]..\\u....|\\u....|\\.|.", re.DOTALL)
"""Matches one character of a raw string: an escaped surrogate pair, an escape, or the character itself."""
_ACTIVE = re.compile(r"[/\\%{}\[\]$<>`|;*?]|\.\.|^~|^__|^-?[0-9]+$")
"""Matches parts of names that some programs treat as a path, pattern, number, code or inherited property."""
_PLAIN = re.compile(r"[A-Za-z0-9_.]+")


def _unescape(members: list[list[Value]], place: int) -> bool:
    def escaped(member: list[Value]) -> bool:
        raw = member[place]
        return type(raw) is bytes and b"\\" in raw

    return change(members, escaped, lambda m: exchange(m, place, written(decode_string(m[place]))))


def _field_order(draft: Draft) -> bool:
    def place(member: list[Value]) -> int:
        return FIELDS.index(decode_string(member[0]))

    def unusual(fields: Obj) -> bool:
        return fields.members != sorted(fields.members, key=place)

    return change((row.fields for row in draft.rows), unusual, lambda fields: fields.members.sort(key=place))


def _blanks(draft: Draft) -> bool:
    found = False
    for tree in trees(File(draft.root)):
        for side in ("head", "foot"):
            old: bytes = getattr(tree, side)
            found |= old != old.strip(BLANKS)
            setattr(tree, side, old.strip(BLANKS))
        for holder in tree.members if type(tree) is Obj else [tree.items] if type(tree) is Arr else []:
            for at, item in enumerate(holder):
                if type(item) is bytes:
                    found |= item != item.strip(BLANKS)
                    holder[at] = item.strip(BLANKS)
    return found


def _long_padding(draft: Draft) -> bool:
    long = draft.spaces >= LONG_PADDING
    draft.spaces %= LONG_PADDING
    return long


def _padding(draft: Draft) -> bool:
    padded, draft.spaces, draft.bare = bool(draft.spaces), 0, True
    return padded


def _odd_length(draft: Draft) -> bool:
    odd, draft.rest = bool(draft.rest), 0
    return odd


HEADER = (
    Feature("an escape in a dtype", "DTY-04", lambda d: _unescape([row.field("dtype") for row in d.rows], 1)),
    Feature(
        "an escape in the name of a field",
        "HDR-10",
        lambda d: _unescape([m for row in d.rows for m in row.fields.members], 0),
    ),
    Feature(
        "an escape in the key __metadata__",
        "MET-06",
        lambda d: _unescape([d.metadata] if d.metadata is not None else [], 0),
    ),
    Feature("fields in an unusual order", "ENT-06", _field_order),
    Feature("whitespace between tokens", "HDR-08", _blanks),
    Feature("8 or more spaces after the header object", "HDR-03", _long_padding),
    Feature("spaces after the header object", "HDR-03", _padding),
    Feature("a header length that is not a multiple of 8", "FRM-08", _odd_length),
)


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


Text = tuple[list[Value], int]
Places = Callable[[Draft], list[Text]]


def _names(draft: Draft) -> list[Text]:
    return [(row.member, 0) for row in draft.rows]


def _metadata(draft: Draft) -> list[Text]:
    return [(pair, place) for pair in draft.pairs for place in (0, 1)]


def _keys(draft: Draft) -> list[Text]:
    return [(pair, 0) for pair in draft.pairs]


def _texts(draft: Draft) -> list[Text]:
    return [*_names(draft), *_metadata(draft)]


def _put(draft: Draft, member: list[Value], place: int, raw: bytes) -> None:
    if place == 0:
        other = draft.free(decode_string(raw), member)
        raw = raw if decode_string(other) == decode_string(raw) else other
    exchange(member, place, raw)


def _respell(places: Places, chosen: Callable[[Unit], bool], how: Callable[[Unit], str]) -> Remover:
    def remove(draft: Draft) -> bool:
        any_found = False
        for member, place in places(draft):
            raw = member[place]
            assert type(raw) is bytes
            found = units(raw)
            if any(map(chosen, found)):
                any_found = True
                spelled = "".join(how(u) if chosen(u) else u.raw for u in found)
                _put(draft, member, place, f'"{spelled}"'.encode())
        return any_found

    return remove


def _reword(places: Places, chosen: Callable[[str], object], how: Callable[[str], str]) -> Remover:
    def remove(draft: Draft) -> bool:
        return change(
            places(draft),
            lambda text: chosen(decode_string(text[0][text[1]])),
            lambda text: _put(draft, *text, written(how(decode_string(text[0][text[1]])))),
        )

    return remove


def _escaped_a(unit: Unit) -> str:
    return "\\u0061" if unit.escaped else "a"


def _alike_names(draft: Draft) -> bool:
    seen: set[str] = set()
    renamed = False
    for row in draft.rows:
        if fold_name(row.name) in seen:
            _put(draft, row.member, 0, draft.free(f"other{len(seen)}"))
            renamed = True
        seen.add(fold_name(row.name))
    return renamed


def _many_metadata(draft: Draft) -> bool:
    several = len(draft.pairs) > 1
    del draft.pairs[1:]
    return several


def _empty_metadata(draft: Draft) -> bool:
    if draft.metadata is None or draft.pairs:
        return False
    draft.pairs.append([b'"a"', b'"a"'])
    return True


def _any_metadata(draft: Draft) -> bool:
    member = draft.metadata
    if member is not None:
        draft.members.remove(member)
    return member is not None


_SPELLING = (
    Feature(
        r"an escape of two characters, such as \n",
        "HDR-15",
        _respell(_texts, lambda u: len(u.raw) == 2, lambda u: f"\\u{ord(u.char):04x}"),
    ),
    Feature(
        "an escaped character that does not need an escape",
        "HDR-15",
        _respell(_texts, lambda u: u.escaped and not u.control and not u.syntax, lambda u: u.char),
    ),
    Feature("a control character in a name", "ENT-08", _respell(_names, lambda u: u.control, _escaped_a)),
    Feature("a quote or backslash in a name", "ENT-08", _respell(_names, lambda u: u.syntax, _escaped_a)),
    Feature(
        "a control character in the metadata", "MET-04", _respell(_metadata, lambda u: u.control, _escaped_a)
    ),
    Feature(
        "a quote or backslash in the metadata", "MET-04", _respell(_metadata, lambda u: u.syntax, _escaped_a)
    ),
    Feature(
        "an escape in a name or in the metadata",
        "HDR-15",
        _respell(_texts, lambda u: u.escaped, lambda u: "a" if u.control or u.syntax else u.char),
    ),
)
_NAMES = (
    Feature("names that differ only in case or Unicode normal form", "HDR-19", _alike_names),
    Feature(
        "a character outside printable ASCII in a name",
        "ENT-08",
        _respell(_names, lambda u: u.char > "~", _escaped_a),
    ),
    Feature("an empty name", "ENT-07", _reword(_names, lambda name: not name, lambda _: "a")),
    Feature("a long name", "ENT-10", _reword(_names, lambda name: len(name) > LONG, lambda name: name[:4])),
    Feature(
        "a name similar to __metadata__",
        "MET-05",
        _reword(_names, lambda name: "metadata" in name.casefold().replace("_", ""), lambda _: "a"),
    ),
    Feature(
        "a name that looks like a path, a number, a pattern or code",
        "ENT-09",
        _reword(_names, lambda name: name in SPECIAL_NAMES or _ACTIVE.search(name), lambda _: "a"),
    ),
    Feature(
        "a name with dots",
        "ENT-09",
        _reword(_names, lambda name: "." in name, lambda name: name.replace(".", "_")),
    ),
    Feature(
        "a name with characters other than letters, digits and underscores",
        "ENT-08",
        _reword(_names, lambda name: name and not _PLAIN.fullmatch(name.replace(".", "_")), lambda _: "a"),
    ),
)
_METADATA = (
    Feature(
        "a character outside printable ASCII in the metadata",
        "MET-04",
        _respell(_metadata, lambda u: u.char > "~", _escaped_a),
    ),
    Feature(
        "an empty string in the metadata", "MET-04", _reword(_metadata, lambda text: not text, lambda _: "a")
    ),
    Feature(
        "a metadata key that is also the name of an entry field",
        "MET-07",
        _reword(_keys, lambda key: key in FIELDS, lambda _: "a"),
    ),
    Feature(
        "the key format in the metadata", "MET-09", _reword(_keys, lambda key: key == "format", lambda _: "a")
    ),
    Feature(
        "a long string in the metadata",
        "MET-10",
        _reword(_metadata, lambda text: len(text) > LONG, lambda text: text[:4]),
    ),
    Feature(
        "a metadata string with characters other than letters, digits, dots and underscores",
        "MET-04",
        _reword(_metadata, lambda text: text and not _PLAIN.fullmatch(text), lambda _: "a"),
    ),
    Feature("several keys in the metadata", "MET-10", _many_metadata),
    Feature("an empty metadata map", "MET-03", _empty_metadata),
    Feature("metadata", "MET-01", _any_metadata),
)
TEXTS = (*_SPELLING, *_NAMES, *_METADATA)
