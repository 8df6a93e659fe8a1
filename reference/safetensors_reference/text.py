"""Makes untrusted text safe to display: visible, without terminal or log commands, and of limited length."""

from __future__ import annotations

import re

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shorten(text: str, limit: int = 80) -> str:
    """Cut off ``text`` at ``limit`` characters and append its length (rule LIM-09)."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text):,} characters)"


def printable(text: str) -> str:
    """Escape characters that could move the cursor or reverse the text."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def visible(text: str, limit: int = 200) -> str:
    """Return ``text`` on one line, with unprintable characters escaped, cut off at ``limit`` characters.

    Control and bidirectional characters, line separators, lone surrogates and unassigned code points are
    escaped. The result can therefore always be encoded as UTF-8 and is displayed in the order in which it is
    stored. The first character of CI log commands is escaped too, wherever a line could be broken.
    """
    text = printable(shorten(text, limit))
    return _COMMAND.sub(lambda match: f"\\u{ord(match[0][0]):04x}{match[0][1:]}", text)


def visible_lines(text: str, limit: int = 2000) -> str:
    return "\n".join(visible(line, limit) for line in text.split("\n"))


_COMMAND = re.compile(r"(?<!\S)::|##\[")
"""Start of a GitHub Actions workflow command: at the start of a line, or anywhere for the old syntax."""


def _escape(char: str) -> str:
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
