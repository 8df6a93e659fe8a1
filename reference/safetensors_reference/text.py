"""Text from outside made safe to show: nothing hidden, no commands to a terminal or a log, bounded length."""

from __future__ import annotations

import re

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shorten(text: str, limit: int = 80) -> str:
    """Cut ``text`` to ``limit`` characters, saying how many are left out (rule LIM-09)."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text):,} characters)"


def printable(text: str) -> str:
    """Escape what would move the cursor or turn the text around; the rest stays as it is."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def visible(text: str, limit: int = 200) -> str:
    """Return ``text`` on one line, everything unprintable escaped, cut at ``limit`` characters.

    Escaped are control and bidirectional-override characters, line separators, lone surrogates and unassigned
    code points, so that the result can always be encoded as UTF-8 and reads in the order it is stored. So is
    the first character of what a log of continuous integration takes as a command, wherever a line is broken.
    """
    text = printable(shorten(text, limit))
    return _COMMAND.sub(lambda found: f"\\u{ord(found[0][0]):04x}{found[0][1:]}", text)


def visible_lines(text: str, limit: int = 2000) -> str:
    return "\n".join(visible(line, limit) for line in text.split("\n"))


_COMMAND = re.compile(r"(?<!\S)::|##\[")
"""Beginning of a workflow command of GitHub Actions: where a line begins, or anywhere in its old form."""


def _escape(char: str) -> str:
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
