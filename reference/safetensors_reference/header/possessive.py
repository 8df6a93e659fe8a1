"""Possessive groups that work on every Python 3.11.

Up to 3.11.4 ``re`` does not go back when the last round of a possessive group fails in its middle
(https://github.com/python/cpython/issues/106052), so that ``1(?:,(?:0|[1-9]))*+]`` matches ``1,]``. There the
same is said with an atomic group, which takes more memory while it matches.
"""

from __future__ import annotations

import re

SOUND = re.fullmatch(rb"1(?:,[ ]*+(?:0|[1-9][0-9]{0,18}+)[ ]*+)*+\]", b"1,]") is None
"""Whether this Python matches possessive groups as documented."""


def possessive(pattern: re.Pattern[bytes]) -> re.Pattern[bytes]:
    return pattern if SOUND else re.compile(atomic(pattern.pattern), pattern.flags)


def atomic(pattern: bytes) -> bytes:
    """Return a pattern with each possessive group written as an atomic one; single characters stay."""
    out = bytearray()
    opened: list[int] = []
    at = 0
    while at < len(pattern):
        sign = pattern[at : at + 1]
        end = at + 1
        if sign == b"\\":
            end = at + 2
        elif sign == b"[":
            end = _class_end(pattern, at)
        elif sign == b"(":
            opened.append(len(out))
        out += pattern[at:end]
        if sign == b")":
            start = opened.pop()
            count = pattern[end : end + 2]
            if count in (b"*+", b"++", b"?+"):
                out[start:] = b"(?>" + out[start:] + count[:1] + b")"
                end += 2
        at = end
    return bytes(out)


def _class_end(pattern: bytes, at: int) -> int:
    at += 2 if pattern[at + 1 : at + 2] == b"^" else 1
    end = at + (2 if pattern[at : at + 1] == b"\\" else 1)
    while pattern[end : end + 1] != b"]":
        end += 2 if pattern[end : end + 1] == b"\\" else 1
    return end + 1
