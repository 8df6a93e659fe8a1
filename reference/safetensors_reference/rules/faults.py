"""Faults: one rule broken by one file, with the place where it is broken."""

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
"""Most characters of the name of a file in a message."""


def quote(text: str, limit: int = 80) -> str:
    """Quote a name for people: JSON escapes for everything unprintable, cut at ``limit`` characters."""
    return json.dumps(shorten(text, limit), ensure_ascii=not text.isprintable())


def shown_name(name: object) -> str:
    """Return the name of a file or an address for people, on one line and as a rule whole, without quotes."""
    return quote(str(name), MAX_NAME)[1:-1]


def quote_some(names: Collection[str], limit: int = 8) -> str:
    """Quote the first ``limit`` names, saying how many there are when some are left out; of none, a dash."""
    tail = f", … ({len(names):,})" if len(names) > limit else ""
    return (", ".join(map(quote, islice(names, limit))) or "-") + tail


def shown(value: object, limit: int = 80) -> str:
    """Show any value for people, cut at ``limit`` characters; one that cannot be shown by its type."""
    if isinstance(value, str):
        return quote(value, limit)
    try:
        return shorten(repr(value), limit)
    except Exception:  # of whatever class it is; and repr() of an integer of 5,000 digits is refused
        return f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule broken at a place.

    Attributes:
        code: standard code, e.g. ``OFF_HOLE``.
        rule: id of the rule that is broken, e.g. ``OFF-07``.
        message: what was found, in one line; bounded in length whatever the file holds (LIM-09).
        start: first file byte concerned.
        end: one past the last file byte concerned; equal to ``start`` for a place between bytes.
        path: place in the header, None when the fault is not inside the JSON.
        choice: the choice this fault falls under; a profile may tolerate it. None for undisputed rules.
    """

    code: str
    rule: str
    message: str
    start: int
    end: int
    path: JsonPath | None = None
    choice: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the fault as a JSON-serialisable dict."""
        return {
            "code": self.code,
            "rule": self.rule,
            "message": self.message,
            "start": self.start,
            "end": self.end,
            "path": None if self.path is None else render_path(self.path),
            "choice": self.choice,
        }
