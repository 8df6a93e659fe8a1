"""Features of how a header is written: padding, blanks, order, and escapes where no text is free."""

from __future__ import annotations

from collections.abc import Iterator

from ..grammar.draft import Draft, exchange, spoken, written
from ..grammar.model import Arr, Obj, Value
from .feature import Feature, change, feature

BLANKS = b" \t\n\r"
LONG_PADDING = 8
"""Spaces that are more than a header needs to become a multiple of 8."""
FIELDS = ("dtype", "shape", "data_offsets")
"""The fields of an entry in the usual order."""

HEADER: list[Feature] = []


def _in_entries(draft: Draft) -> list[list[Value]]:
    return [member for row in draft.rows for member in row.fields.members]


def _unescape(members: list[list[Value]], place: int) -> bool:
    """Write the keys (place 0) or values (place 1) of members without escapes; False when none has any."""

    def escaped(member: list[Value]) -> bool:
        raw = member[place]
        return type(raw) is bytes and b"\\" in raw

    return change(members, escaped, lambda m: exchange(m, place, written(spoken(m[place]))))


@feature(HEADER, "DTY-04")
def escaped_dtypes(draft: Draft) -> bool:
    """An escape in a dtype."""
    return _unescape([row.field("dtype") for row in draft.rows], 1)


@feature(HEADER, "HDR-10")
def escaped_fields(draft: Draft) -> bool:
    """An escape in the name of a field."""
    return _unescape(_in_entries(draft), 0)


@feature(HEADER, "MET-06")
def escaped_reserved(draft: Draft) -> bool:
    """An escape in the key __metadata__."""
    return draft.metadata is not None and _unescape([draft.metadata], 0)


@feature(HEADER, "ENT-06")
def field_order(draft: Draft) -> bool:
    """Fields in an unusual order."""

    def place(member: list[Value]) -> int:
        return FIELDS.index(spoken(member[0]))

    def unusual(fields: Obj) -> bool:
        return fields.members != sorted(fields.members, key=place)

    return change((row.fields for row in draft.rows), unusual, lambda fields: fields.members.sort(key=place))


@feature(HEADER, "HDR-08")
def blanks(draft: Draft) -> bool:
    """Blanks between tokens."""
    found = False
    for tree in _trees(draft):
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


def _trees(draft: Draft) -> Iterator[Obj | Arr]:
    todo: list[Value] = [draft.root]
    while todo:
        value = todo.pop()
        if type(value) is Obj:
            yield value
            todo += [member[1] for member in value.members]
        elif type(value) is Arr:
            yield value
            todo += value.items


@feature(HEADER, "HDR-03")
def long_padding(draft: Draft) -> bool:
    """8 or more spaces behind the header object."""
    long = draft.spaces >= LONG_PADDING
    draft.spaces %= LONG_PADDING
    return long


@feature(HEADER, "HDR-03")
def padding(draft: Draft) -> bool:
    """Spaces behind the header object."""
    padded, draft.spaces, draft.bare = bool(draft.spaces), 0, True
    return padded


@feature(HEADER, "FRM-08")
def odd_length(draft: Draft) -> bool:
    """A header length that 8 does not divide."""
    odd, draft.rest = bool(draft.rest), 0
    return odd
