"""Faults: a rule that a file breaks, with the place."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from ..text import printable
from ..text import shorten as shorten  # noqa: PLC0414 - quoting and cutting belong together

JsonPath = tuple[str | int, ...]
"""Place in the header: keys and array indices from the root, ``()`` for the root itself."""


def render_path(path: JsonPath) -> str:
    """Render a path as a JSONPath (RFC 9535) in ASCII, e.g. ``$['w']['shape'][0]``; long keys are cut."""
    out = ["$"]
    for part in path:
        if isinstance(part, int):
            out.append(f"[{part}]")
        else:
            body = json.dumps(shorten(part), ensure_ascii=True)[1:-1].replace('\\"', '"').replace("'", "\\'")
            out.append(f"['{body}']")
    return "".join(out)


def without_name(message: str, name: str) -> str:
    return message.removeprefix(f"{printable(name)}: ")


MAX_NAME = 500
"""Longest file name in a message, in characters."""


def quote(text: str, limit: int = 80) -> str:
    """Quote a name for people, with JSON escapes, cut at ``limit`` characters."""
    return json.dumps(shorten(text, limit), ensure_ascii=not text.isprintable())


def shown_name(name: object) -> str:
    """Return a file name or address for people: one line, unquoted, usually whole."""
    return quote(str(name), MAX_NAME)[1:-1]


def quote_some(names: Collection[str], limit: int = 8) -> str:
    """Quote the first ``limit`` names and append the total if names are omitted; a dash without names."""
    tail = f", … ({len(names):,})" if len(names) > limit else ""
    return (", ".join(map(quote, islice(names, limit))) or "-") + tail


def shown(value: object, limit: int = 80) -> str:
    """Show any value for people, cut at ``limit`` characters; its type if ``repr`` fails."""
    if isinstance(value, str):
        return quote(value, limit)
    try:
        return shorten(repr(value), limit)
    except Exception:  # any class; even repr() of an integer of 5,000 digits fails
        return f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule broken at a place.

    Attributes:
        code: standard code, e.g. ``OFF_HOLE``.
        rule: id of the broken rule, e.g. ``OFF-07``.
        message: one line, bounded in length whatever the file contains (LIM-09).
        start: first file byte concerned.
        end: one past the last file byte concerned; equal to ``start`` for a place between bytes.
        path: place in the header, None for a fault outside the JSON.
        choice: choice that covers this fault, so that a profile may tolerate it; None for undisputed rules.
    """

    code: str
    rule: str
    message: str
    start: int
    end: int
    path: JsonPath | None = None
    choice: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "rule": self.rule,
            "message": self.message,
            "start": self.start,
            "end": self.end,
            "path": None if self.path is None else render_path(self.path),
            "choice": self.choice,
        }
