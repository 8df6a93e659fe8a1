"""Makes untrusted text and bytes safe to print by escaping unprintable characters and limiting the length."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from itertools import islice

WIDTH = 16
"""Number of bytes on one line of a hexadecimal view."""
MAX_NAME = 500
"""Maximum length of a file name in a message, in characters."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shorten(text: str, limit: int = 80) -> str:
    """Cut off ``text`` at ``limit`` characters and append its length (rule LIM-09)."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text):,} characters)"


def plural(number: int, word: str, many: str = "") -> str:
    return f"{number:,} {word if number == 1 else many or word + 's'}"


def printable(text: str) -> str:
    """Escape characters that could move the cursor or reverse the text."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def without_name(message: str, name: str) -> str:
    return message.removeprefix(f"{printable(name)}: ")


def quote(text: str, limit: int = 80) -> str:
    """Quote a name for display, with JSON escapes, and truncate it to ``limit`` characters."""
    return json.dumps(shorten(text, limit), ensure_ascii=not text.isprintable())


def shown_name(name: object, limit: int = MAX_NAME) -> str:
    """Format a file name, an address or other untrusted text for display on one line, without quotes."""
    return quote(str(name), limit)[1:-1]


def quote_some(names: Collection[str], limit: int = 8) -> str:
    """Quote the first ``limit`` names, with the number of all if there are more, or return a dash."""
    tail = f", … ({len(names):,})" if len(names) > limit else ""
    return (", ".join(map(quote, islice(names, limit))) or "-") + tail


def shown(value: object, limit: int = 80) -> str:
    """Format any value for display in at most ``limit`` characters."""
    if isinstance(value, str):
        return quote(value, limit)
    try:
        return shorten(repr(value), limit)
    except Exception:  # the value may be of any class; repr() fails even for an integer of 5,000 digits
        return f"a value of type {type(value).__name__}"


def visible(text: str, limit: int = 200) -> str:
    """Return ``text`` on one line, with unprintable characters escaped, cut off at ``limit`` characters.

    Control and bidirectional characters, line separators, lone surrogates and unassigned code points are
    escaped. The result can therefore always be encoded as UTF-8 and is displayed in the order in which it is
    stored. The first character of a CI log command is also escaped, even in the middle of a line, because
    lines may be wrapped.
    """
    text = printable(shorten(text, limit))
    return _COMMAND.sub(lambda match: f"\\u{ord(match[0][0]):04x}{match[0][1:]}", text)


def code(text: str, limit: int = 200) -> str:
    """Return a Markdown code span for a table cell that does not trigger mentions, links or HTML."""
    text = visible(text, limit).replace("`", "\\u0060").replace("|", "\\u007c")
    return f"`{text}`" if text else ""


def visible_lines(text: str, limit: int = 2000) -> str:
    return "\n".join(visible(line, limit) for line in text.split("\n"))


_COMMAND = re.compile(r"(?<!\S)::|##\[")
"""Start of a GitHub Actions workflow command. In the old syntax, it may occur anywhere in a line."""


def _escape(char: str) -> str:
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def hexview(data: bytes, start: int, end: int, *, base: int = 0, limit: int = 96) -> str:
    """Return lines of 16 bytes around ``[start, end)``, marked by ``^^``; ``data`` begins at ``base``."""
    first = max(start - base - WIDTH, 0) // WIDTH * WIDTH
    last = min(len(data), first + limit, max(-(-(end - base + WIDTH) // WIDTH) * WIDTH, WIDTH))
    if start == end == 0:
        last = min(len(data), limit)
    lines = []
    for row in range(first, last, WIDTH):
        chunk = data[row : min(row + WIDTH, last)]
        hexes = " ".join(f"{b:02x}" for b in chunk)
        text = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in chunk)
        lines.append(f"{base + row:08x}  {hexes:<{WIDTH * 3 - 1}}  {text}")
        marks = [start <= base + row + i < end for i in range(len(chunk))]
        if any(marks):
            line = " ".join("^^" if m else "  " for m in marks)
            lines.append(f"          {line}".rstrip())
    if first + limit < len(data) and last < len(data) and end - base > last:
        lines.append(f"          … up to byte {end - 1:#x}")
    return "\n".join(lines)
