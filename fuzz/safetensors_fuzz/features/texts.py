"""Features of texts that are free: names of tensors, keys and values of the metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..grammar.draft import Draft, exchange, folded, spoken, written
from ..grammar.model import Value
from ..grammar.vocabulary import SPECIAL_NAMES
from .feature import Feature, change, feature

LONG = 60
"""Characters that are more than a short text has."""
FIELD_NAMES = ("dtype", "shape", "data_offsets")
_UNIT = re.compile(r"\\u[dD][89abAB]..\\u....|\\u....|\\.|.", re.DOTALL)
"""One character of a string as it is written: a pair of escapes, an escape, or itself."""
_ACTIVE = re.compile(r"[/\\%{}\[\]$<>`|;*?]|\.\.|^~|^__|^-?[0-9]+$")
"""What makes a name a path, a pattern, a number, code or a member of every object to some."""
_PLAIN = re.compile(r"[A-Za-z0-9_.]+")

TEXTS: list[Feature] = []


@dataclass(frozen=True)
class Unit:
    """One character of a string: as it is written, and what it stands for."""

    raw: str
    char: str


def units(raw: bytes) -> list[Unit]:
    """Return the characters of a string that is written with its quotes."""
    inner = raw.strip(b" \t\n\r").decode()[1:-1]
    return [Unit(found, json.loads(f'"{found}"', strict=False)) for found in _UNIT.findall(inner)]


Spell = Callable[[Unit], str]


def _escaped_a(unit: Unit) -> str:
    """Return a letter, as an escape if the character was one."""
    return "\\u0061" if unit.raw != unit.char else "a"


def _controls(unit: Unit) -> bool:
    return unit.char < " "


def _syntax(unit: Unit) -> bool:
    return unit.char in '"\\'


def _beyond_ascii(unit: Unit) -> bool:
    return unit.char > "~"


def _names(draft: Draft) -> Iterator[tuple[list[Value], int]]:
    return ((row.member, 0) for row in draft.rows)


def _metadata(draft: Draft) -> Iterator[tuple[list[Value], int]]:
    return ((pair, place) for pair in draft.pairs for place in (0, 1))


def _put(draft: Draft, member: list[Value], place: int, raw: bytes) -> None:
    """Put a text in place of another; of a name or key that is there already, one near to it."""
    if place == 0:
        near = draft.free_key if member in draft.pairs else draft.free
        other = near(spoken(raw), member)
        raw = raw if spoken(other) == spoken(raw) else other
    exchange(member, place, raw)


def _respell(
    draft: Draft, member: list[Value], place: int, chosen: Callable[[Unit], bool], how: Spell
) -> bool:
    raw = member[place]
    assert type(raw) is bytes
    found = units(raw)
    if not any(map(chosen, found)):
        return False
    _put(draft, member, place, f'"{"".join(how(u) if chosen(u) else u.raw for u in found)}"'.encode())
    return True


def _respell_all(
    draft: Draft, places: Iterable[tuple[list[Value], int]], chosen: Callable[[Unit], bool], how: Spell
) -> bool:
    return sum(_respell(draft, member, place, chosen, how) for member, place in places) > 0


def _everywhere(draft: Draft, chosen: Callable[[Unit], bool], how: Spell) -> bool:
    return _respell_all(draft, [*_names(draft), *_metadata(draft)], chosen, how)


def _reword(draft: Draft, chosen: Callable[[str], object], how: Callable[[str], str]) -> bool:
    """Give tensors other names."""
    return change(
        draft.rows,
        lambda row: chosen(row.name),
        lambda row: _put(draft, row.member, 0, written(how(row.name))),
    )


# ---- how they are written ----


@feature(TEXTS, "HDR-15")
def short_escapes(draft: Draft) -> bool:
    r"""An escape of two characters, such as \n."""
    return _everywhere(draft, lambda u: len(u.raw) == 2, lambda u: f"\\u{ord(u.char):04x}")


@feature(TEXTS, "HDR-15")
def needless_escapes(draft: Draft) -> bool:
    """An escaped character that might stand for itself."""

    def needless(unit: Unit) -> bool:
        return unit.raw != unit.char and not _controls(unit) and not _syntax(unit)

    return _everywhere(draft, needless, lambda u: u.char)


# ---- characters that need an escape, and escapes at all ----


@feature(TEXTS, "ENT-08")
def control_names(draft: Draft) -> bool:
    """A control character in a name."""
    return _respell_all(draft, _names(draft), _controls, _escaped_a)


@feature(TEXTS, "ENT-08")
def syntax_names(draft: Draft) -> bool:
    """A quote or backslash in a name."""
    return _respell_all(draft, _names(draft), _syntax, _escaped_a)


@feature(TEXTS, "MET-04")
def control_metadata(draft: Draft) -> bool:
    """A control character in the metadata."""
    return _respell_all(draft, _metadata(draft), _controls, _escaped_a)


@feature(TEXTS, "MET-04")
def syntax_metadata(draft: Draft) -> bool:
    """A quote or backslash in the metadata."""
    return _respell_all(draft, _metadata(draft), _syntax, _escaped_a)


@feature(TEXTS, "HDR-15")
def escapes(draft: Draft) -> bool:
    """An escape in a name or in the metadata."""

    def plain(unit: Unit) -> str:
        return "a" if _controls(unit) or _syntax(unit) else unit.char

    return _everywhere(draft, lambda unit: unit.raw != unit.char, plain)


# ---- names ----


@feature(TEXTS, "HDR-19")
def alike_names(draft: Draft) -> bool:
    """Names that differ only in case or in the form of a character."""
    seen: set[str] = set()
    found = False
    for row in draft.rows:
        if folded(row.name) in seen:
            _put(draft, row.member, 0, draft.free(f"other{len(seen)}"))
            found = True
        seen.add(folded(row.name))
    return found


@feature(TEXTS, "ENT-08")
def wide_names(draft: Draft) -> bool:
    """A character beyond printable ASCII in a name."""
    return _respell_all(draft, _names(draft), _beyond_ascii, _escaped_a)


@feature(TEXTS, "ENT-07")
def empty_names(draft: Draft) -> bool:
    """An empty name."""
    return _reword(draft, lambda name: not name, lambda _: "a")


@feature(TEXTS, "ENT-10")
def long_names(draft: Draft) -> bool:
    """A long name."""
    return _reword(draft, lambda name: len(name) > LONG, lambda name: name[:4])


@feature(TEXTS, "MET-05")
def near_names(draft: Draft) -> bool:
    """A name near to __metadata__."""
    return _reword(draft, lambda name: "metadata" in name.casefold().replace("_", ""), lambda _: "a")


@feature(TEXTS, "ENT-09")
def active_names(draft: Draft) -> bool:
    """A name that looks like a path, a number, a pattern or code."""
    return _reword(draft, lambda name: name in SPECIAL_NAMES or _ACTIVE.search(name), lambda _: "a")


@feature(TEXTS, "ENT-09")
def dotted_names(draft: Draft) -> bool:
    """A name with dots."""
    return _reword(draft, lambda name: "." in name, lambda name: name.replace(".", "_"))


@feature(TEXTS, "ENT-08")
def unusual_names(draft: Draft) -> bool:
    """A name of other characters than letters, digits and underscores."""
    return _reword(draft, lambda name: name and not _PLAIN.fullmatch(name.replace(".", "_")), lambda _: "a")


# ---- metadata ----


@feature(TEXTS, "MET-04")
def wide_metadata(draft: Draft) -> bool:
    """A character beyond printable ASCII in the metadata."""
    return _respell_all(draft, _metadata(draft), _beyond_ascii, _escaped_a)


def _retext(
    draft: Draft, chosen: Callable[[str], object], how: Callable[[str], str], places: tuple[int, ...]
) -> bool:
    """Change keys (place 0) or values (place 1) of the metadata."""
    found = [
        (pair, place) for pair, place in _metadata(draft) if place in places and chosen(spoken(pair[place]))
    ]
    for pair, place in found:
        _put(draft, pair, place, written(how(spoken(pair[place]))))
    return bool(found)


@feature(TEXTS, "MET-04")
def empty_metadata_texts(draft: Draft) -> bool:
    """An empty text in the metadata."""
    return _retext(draft, lambda text: not text, lambda _: "a", (0, 1))


@feature(TEXTS, "MET-07")
def field_like_metadata(draft: Draft) -> bool:
    """A metadata key that is a field of an entry."""
    return _retext(draft, lambda key: key in FIELD_NAMES, lambda _: "a", (0,))


@feature(TEXTS, "MET-09")
def format_metadata(draft: Draft) -> bool:
    """The metadata key format."""
    return _retext(draft, lambda key: key == "format", lambda _: "a", (0,))


@feature(TEXTS, "MET-10")
def long_metadata(draft: Draft) -> bool:
    """A long text in the metadata."""
    return _retext(draft, lambda text: len(text) > LONG, lambda text: text[:4], (0, 1))


@feature(TEXTS, "MET-04")
def unusual_metadata(draft: Draft) -> bool:
    """A metadata text of other characters than letters, digits, dots and underscores."""
    return _retext(draft, lambda text: text and not _PLAIN.fullmatch(text), lambda _: "a", (0, 1))


@feature(TEXTS, "MET-10")
def many_metadata(draft: Draft) -> bool:
    """Several keys in the metadata."""
    several = len(draft.pairs) > 1
    del draft.pairs[1:]
    return several


@feature(TEXTS, "MET-03")
def empty_metadata(draft: Draft) -> bool:
    """An empty metadata map."""
    if draft.metadata is None or draft.pairs:
        return False
    draft.pairs.append([b'"a"', b'"a"'])
    return True


@feature(TEXTS, "MET-01")
def any_metadata(draft: Draft) -> bool:
    """Metadata."""
    found = draft.metadata
    if found is None:
        return False
    draft.members.remove(found)
    return True
