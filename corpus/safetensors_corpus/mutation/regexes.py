"""One-token faults in regular expressions: the grammar of numbers, strings and whitespace lives in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"(?P<template>%\(\w+\)s)"
    r"|(?P<set>\[\^?\]?(?:\\x[0-9a-fA-F]{2}|\\.|[^\]\\])*\])"
    r"|(?P<group>\(\?:|\(|\))"
    r"|(?P<count>[*+?][+?]?|\{\d+(?:,\d*)?\})"
    r"|(?P<bar>\|)"
    r"|(?P<atom>\\x[0-9a-fA-F]{2}|\\.|.)",
    re.DOTALL,
)
_ITEM = re.compile(r"(\\x[0-9a-fA-F]{2}|\\.|.)(?:-(\\x[0-9a-fA-F]{2}|\\.|[^\]]))?", re.DOTALL)
_COUNTS = {"*": ("+", "?"), "+": ("*", ""), "?": ("", "*"), "*+": ("++", "?"), "++": ("*+", "")}


def faulty(pattern: str) -> Iterator[str]:
    """Yield each pattern that differs from ``pattern`` by one token.

    Changed are repetition counts, members and ends of ranges of character sets and their negation, and
    alternatives. A result need not compile; such a mutant is never born.
    """
    tokens = list(_TOKEN.finditer(pattern))
    for token in tokens:
        before, text, after = pattern[: token.start()], token.group(), pattern[token.end() :]
        if token.lastgroup == "set":
            for other in _sets(text):
                yield before + other + after
        elif token.lastgroup == "count":
            for other in _counts(text):
                yield before + other + after
        elif token.lastgroup == "atom":
            # Without its count the atom would leave the count to whatever stands before it.
            follows = _TOKEN.match(after)
            counted = follows is not None and follows.lastgroup == "count"
            yield before + (after[follows.end() :] if counted and follows else after)
    yield from _without_alternatives(pattern, tokens)


def _counts(text: str) -> Iterator[str]:
    if text in _COUNTS:
        yield from _COUNTS[text]
    elif text[0] == "{" and text[1:-1].isdigit():
        count = int(text[1:-1])
        yield f"{{{count - 1}}}"
        yield f"{{{count + 1}}}"


def _sets(text: str) -> Iterator[str]:
    """Yield the character set with one member missing, with one range shorter, and with the other sign."""
    sign = "^" if text[1] == "^" else ""
    items = [m.group() for m in _ITEM.finditer(text[1 + len(sign) : -1])]
    yield f"[{'' if sign else '^'}{''.join(items)}]"
    for index, item in enumerate(items):
        for other in ("", *_shorter(item)):
            changed = "".join([*items[:index], other, *items[index + 1 :]])
            if changed:
                yield f"[{sign}{changed}]"


def _shorter(item: str) -> Iterator[str]:
    match = _ITEM.fullmatch(item)
    if match is None or match.group(2) is None:
        return
    first, last = _code(match.group(1)), _code(match.group(2))
    yield f"{_escape(first + 1)}-{_escape(last)}"
    yield f"{_escape(first)}-{_escape(last - 1)}"


def _code(text: str) -> int:
    return int(text[2:], 16) if text.startswith("\\x") else ord(text[-1])


def _escape(code: int) -> str:
    return chr(code) if chr(code).isalnum() else f"\\x{code:02x}"


def _without_alternatives(pattern: str, tokens: list[re.Match[str]]) -> Iterator[str]:
    """Yield the pattern without each alternative of each group (and of the whole)."""
    opened: list[list[int]] = [[0]]
    for token in tokens:
        if token.lastgroup == "bar":
            opened[-1].append(token.end())
        elif token.group() in ("(", "(?:"):
            opened.append([token.end()])
        elif token.group() == ")" and token.lastgroup == "group":
            yield from _drop_each(pattern, opened.pop(), token.start())
    yield from _drop_each(pattern, opened[0], len(pattern))


def _drop_each(pattern: str, starts: list[int], end: int) -> Iterator[str]:
    if len(starts) < 2:
        return
    stops = [s - 1 for s in starts[1:]] + [end]
    parts = [pattern[a:b] for a, b in zip(starts, stops, strict=True)]
    for index in range(len(parts)):
        rest = "|".join([*parts[:index], *parts[index + 1 :]])
        yield pattern[: starts[0]] + rest + pattern[end:]
