"""Describes faults, each of which is a broken rule with the position where the file breaks it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from ..text import shorten

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


REPORTED_RULES = tuple(
    f"{family}-{number}"
    for family, numbers in {
        "DTY": "01 02 03 09",
        "ENT": "01 02 03 04",
        "FRM": "03 04 06 07",
        "HDR": "01 02 03 05 06 07 09 11 12 13 14 15 16 18",
        "MET": "01 02",
        "OFF": "01 02 03 04 05 06 07 08",
        "SHP": "01 02 05 06 07",
    }.items()
    for number in numbers.split()
)
"""Rules that the strict reader names in the faults of a header. Other rules only explain these."""
