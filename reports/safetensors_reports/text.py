"""Texts from readers and files made safe to show: no hidden characters, no markup, bounded length."""

from __future__ import annotations

import re

from safetensors_reference.rules.faults import shorten

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, limit: int = 200) -> str:
    """Return ``text`` on one line, everything unprintable escaped, cut at ``limit`` characters.

    Escaped are control and bidirectional-override characters, line separators, lone surrogates and unassigned
    code points, so that the result can always be encoded as UTF-8 and reads in the order it is stored. So is
    the first character of what a log of continuous integration takes as a command, wherever a line is broken.
    """
    text = shorten(text, limit)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escape(c) for c in text)
    return _COMMAND.sub(lambda found: f"\\u{ord(found[0][0]):04x}{found[0][1:]}", text)


_COMMAND = re.compile(r"(?<!\S)::|##\[")
"""Beginning of a workflow command of GitHub Actions: where a line begins, or anywhere in its old form."""


def _escape(char: str) -> str:
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def code(text: str, limit: int = 200) -> str:
    """Return ``text`` as a Markdown code span that also survives inside a table cell; empty stays empty.

    A code span keeps mentions, links and HTML inert on every forge. Backticks and bars, the two characters
    that could leave it, become escapes: a bar behind two backslashes would still end a table cell.
    """
    text = visible(text, limit).replace("`", "\\u0060").replace("|", "\\u007c")
    return f"`{text}`" if text else ""


def plural(number: int, word: str, many: str = "") -> str:
    """Return ``1 case`` or ``1,204 cases``; ``many`` where an s is not enough."""
    return f"{number:,} {word if number == 1 else many or word + 's'}"


def spaced(numbers: dict[str, int], between: str = "   ") -> str:
    """Join counts as ``unsafe 0   wrong-accept 1,204``."""
    return between.join(f"{name} {count:,}" for name, count in numbers.items())


def listed(items: list[str], limit: int) -> str:
    """Join about ``limit`` items with commas, saying how many are left out: a single one is named as well."""
    rest = len(items) - limit
    return ", ".join(items) if rest <= 1 else f"{', '.join(items[:limit])} and {rest:,} more"
