"""Broken readers: valid JSON that is refused (HDR-07, HDR-08, HDR-14, HDR-15)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..correct.json import ESCAPES, Refused, join_surrogates
from ..correct.reader import READER
from ..variant import reading


def _without_escape(letter: str) -> dict[str, Any]:
    return {"escapes": {key: char for key, char in ESCAPES.items() if key != letter}}


def _refusing(pattern: str) -> dict[str, Callable[[str], str]]:
    """Refuse strings in which ``pattern`` is found."""
    find = re.compile(pattern).search

    def finish(text: str) -> str:
        joined = join_surrogates(text)
        if find(text) or find(joined):
            raise Refused("string")
        return joined

    return {"finish": finish}


STRICT: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *((f"escape-{name}", f"Does not know the escape {name}.", _without_escape(letter))
      for name, letter in (("solidus", "/"), ("backspace", "b"), ("form-feed", "f"), ("line-feed", "n"),
                           ("carriage-return", "r"), ("tab", "t"), ("quote", '"'), ("backslash", "\\"))),
    ("escapes", "Knows no escapes.", {"escapes": {}, "hex4": "(?!)"}),
    ("escape-code-point", "Does not know escapes of code points.", {"hex4": "(?!)"}),
    ("lower-case-hex", "Takes lower-case digits only.", {"hex4": "[0-9a-f]{4}"}),
    ("upper-case-hex", "Takes upper-case digits only.", {"hex4": "[0-9A-F]{4}"}),
    ("surrogate-pairs", "Refuses pairs of escaped surrogates.", _refusing("[\ud800-\udfff]")),
    ("astral", "Refuses characters beyond the basic plane.", _refusing("[\U00010000-\U0010ffff]")),
    ("non-ascii", "Refuses characters beyond ASCII in strings.", _refusing("[^\x00-\x7f]")),
    ("nul", "Refuses NUL in strings.", _refusing("\0")),
    ("controls", "Refuses control characters in strings even when they are escaped.",
     _refusing("[\x01-\x1f]")),
    ("delete", "Refuses the character DEL.", {"raw": r"\x00-\x1f\x7f"}),
    ("noncharacters", "Refuses noncharacters.", _refusing("[\ufdd0-\ufdef\ufffe\uffff]")),
    ("byte-order-mark", "Refuses a byte-order mark inside a string.", _refusing("\ufeff")),
    ("bidirectional", "Refuses bidirectional controls.", _refusing("[\u200e\u200f\u202a-\u202e]")),
    ("separators", "Refuses the line separators of Unicode.", _refusing("[\u2028\u2029]")),
    ("joiners", "Refuses invisible characters.", _refusing("[\u200b-\u200d]")),
    ("long-string-255", "Refuses strings above 255 characters.", _refusing("(?s).{256}")),
    ("long-string-1023", "Refuses strings above 1,023 characters.", _refusing("(?s).{1024}")),
    ("long-string-32767", "Refuses strings above 32,767 characters.", _refusing("(?s).{32768}")),
    ("empty-string", "Refuses empty strings.", _refusing(r"\A\Z")),
    ("paths", "Refuses strings that look like a path.", _refusing(r"\.\./|\A/|\A[A-Z]:\\")),
    ("markup", "Refuses markup in strings.", _refusing("[<>]")),
    ("format-letters", "Refuses signs of format strings.", _refusing("[%{}$`]")),
    ("whitespace", "Takes no whitespace between tokens.", {"space": ""}),
    ("space-only", "Takes only spaces between tokens.", {"space": " *"}),
    ("no-tab", "Refuses TAB between tokens.", {"space": r"[ \n\r]*"}),
    ("no-carriage-return", "Refuses CR between tokens.", {"space": r"[ \n\t]*"}),
    ("no-line-feed", "Refuses line feeds between tokens.", {"space": r"[ \r\t]*"}),
    ("one-space", "Takes one whitespace character between tokens.", {"space": r"[ \t\n\r]?"}),
)  # fmt: skip

VARIANTS = tuple(
    reading(f"refuses-{name}", about, replace(READER, grammar=replace(READER.grammar, **changes)))
    for name, about, changes in STRICT
)
