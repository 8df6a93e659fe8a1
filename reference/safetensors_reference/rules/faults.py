"""Describes faults, each of which is a broken rule with the position where the file breaks it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ..text import printable
from ..text import shorten as shorten  # noqa: PLC0414 - quoting and cutting belong together

JsonPath = tuple[str | int, ...]
"""Path to a value in the header: the keys and array indices that lead to it from the root, which is ``()``.
"""


def render_path(path: JsonPath) -> str:
    """Format a path as an ASCII JSONPath (RFC 9535), e.g. ``$['w']['shape'][0]``. Truncate long keys."""
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
"""Maximum length of a file name in a message, in characters."""


def quote(text: str, limit: int = 80) -> str:
    """Quote a name for display, with JSON escapes, and truncate it to ``limit`` characters."""
    return json.dumps(shorten(text, limit), ensure_ascii=not text.isprintable())


def shown_name(name: object, limit: int = MAX_NAME) -> str:
    """Format a file name, an address or other untrusted text for display on one line, without quotes."""
    return quote(str(name), limit)[1:-1]


def quote_some(names: Collection[str], limit: int = 8) -> str:
    """Quote the first ``limit`` names. If there are more, add the total number of names.

    Return a dash if there are no names.
    """
    tail = f", … ({len(names):,})" if len(names) > limit else ""
    return (", ".join(map(quote, islice(names, limit))) or "-") + tail


def shown(value: object, limit: int = 80) -> str:
    """Format any value for display in at most ``limit`` characters.

    If ``repr`` fails, name the type instead.
    """
    if isinstance(value, str):
        return quote(value, limit)
    try:
        return shorten(repr(value), limit)
    except Exception:  # the value may be of any class; repr() fails even for an integer of 5,000 digits
        return f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule, with the position where it is broken.

    Attributes:
        code: standard fault code, e.g. ``OFF_HOLE``.
        rule: id of the broken rule, e.g. ``OFF-07``.
        message: one line of limited length, whatever the file contains (LIM-09).
        start: file position of the first affected byte.
        end: file position after the last affected byte; equal to ``start`` for a position between two bytes.
        path: path to the value in the header, or None for a fault outside the JSON text.
        choice: choice under which a profile may tolerate the fault, or None if the rule is undisputed.
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


class Likeness(NamedTuple):
    """Kind of file that an invalid file looks like: a short name of the kind and a one-line description."""

    kind: str
    text: str
