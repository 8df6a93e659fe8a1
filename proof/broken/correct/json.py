"""A small JSON parser in which every production can be broken on its own.

``Grammar`` has a field for what each production accepts, and a named check for each requirement. A broken
parser is this parser with one field replaced or one check left out. ``Checked`` is the base of all correct
implementations in this package: it provides named checks and replaceable steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from safetensors_corpus.judging.answer import Refused

from ..variant import changed

ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
HALF = re.compile("[\ud800-\udfff]")
PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"


def refusing(when: Callable[..., object], error: type[BaseException] = Refused) -> Callable[..., Any]:
    """Return a step for ``changed`` that raises an error if ``when`` is true for its arguments."""

    def step(right: Callable[..., Any], *given: Any) -> Any:
        if when(*given):
            raise error("rejected only by this variant")
        return right(*given)

    return step


def refusing_result(
    when: Callable[[Any], object], error: type[BaseException] = Refused
) -> Callable[..., Any]:
    """Return a step for ``changed`` that raises an error if ``when`` is true for the correct result."""

    def step(right: Callable[..., Any], *given: Any) -> Any:
        found = right(*given)
        if when(found):
            raise error("rejected only by this variant")
        return found

    return step


def answering(error: type[BaseException], answer: Callable[[], object]) -> Callable[..., Any]:
    """Return a step for ``changed`` that returns a result where the correct step raises an error."""

    def step(right: Callable[..., Any], *given: Any) -> Any:
        try:
            return right(*given)
        except error:
            return answer()

    return step


@dataclass(frozen=True)
class Checked:
    """Base class with named checks that can be left out and steps that can be replaced.

    ``left_out`` names the checks that one object leaves out, and ``lacks`` those that a whole class leaves
    out.
    """

    lacks: ClassVar[frozenset[str]] = frozenset()
    left_out: frozenset[str] = frozenset()

    def __init_subclass__(cls, without: Sequence[str] = ()) -> None:
        cls.lacks = cls.lacks.union(without)

    def without(self, *checks: str) -> Self:
        return replace(self, left_out=self.left_out | set(checks))

    def changed(self, **steps: Callable[..., Any]) -> Self:
        """Return a copy with replaced steps; each new step receives the old one as its first argument."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return changed(type(self), **steps)(**parts)

    def demand(self, check: str, met: bool) -> None:
        if not met and check not in self.left_out | self.lacks:
            raise Refused(check)


class Number(str):
    """A JSON number in its original spelling, on which the checks of shapes and offsets depend."""

    __slots__ = ()


class Pairs(list[tuple[str, object]]):
    """A JSON object that may have repeated keys, in the order of the text."""


def number_in_range(text: str) -> object:
    """Keep the spelling of a number, but reject a number beyond double precision (HDR-18)."""
    if abs(float(text)) == float("inf"):
        raise Refused("number-range")
    return Number(text)


def join_surrogates(text: str) -> str:
    r"""Join the surrogates that ``\u`` escapes produced, and reject a lone surrogate (HDR-15)."""
    if not HALF.search(text):
        return text
    joined = paired(text)
    if HALF.search(joined):
        raise Refused("lone-surrogate")
    return joined


def paired(text: str) -> str:
    return PAIR.sub(_astral, text)


def _astral(match: re.Match[str]) -> str:
    high, low = map(ord, match[0])
    return chr(0x10000 + ((high & 0x3FF) << 10 | low & 0x3FF))


@dataclass(frozen=True)
class Grammar(Checked):
    """The grammar of RFC 8259 with replaceable parts.

    ``space`` matches the characters that may separate tokens, ``raw`` the characters that a string must not
    contain unescaped. ``finish`` is applied to every string and ``convert`` to every number. ``deep`` is the
    grammar of values from level ``deep_from`` on, where the header object is level 1.
    """

    space: str = r"[ \t\n\r]*"
    quotes: str = '"'
    raw: str = r"\x00-\x1f"
    escapes: Mapping[str, str] = field(default_factory=lambda: ESCAPES)
    hex4: str = "[0-9a-fA-F]{4}"
    finish: Callable[[str], str] = join_surrogates
    number: str = NUMBER
    convert: Callable[[str], object] = number_in_range
    words: Mapping[str, object] = field(default_factory=lambda: WORDS)
    bare_key: str = "(?!)"
    depth: int = 127
    deep: Grammar | None = None
    deep_from: int = 0

    @cached_property
    def patterns(self) -> dict[str, re.Pattern[str]]:
        """Return the compiled patterns; the patterns for strings are stored under the quote character."""
        sources = {"space": self.space, "number": self.number, "hex4": self.hex4, "bare_key": self.bare_key}
        sources["comma"] = f"{self.space},{self.space}"
        sources["word"] = "|".join(sorted(self.words, reverse=True))
        sources |= {quote: rf"[^{quote}\\{self.raw}]*" for quote in self.quotes}
        return {name: re.compile(source) for name, source in sources.items()}

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        """Return the value that begins at ``at``, and the position after it. Raises Refused."""
        if self.deep is not None and level >= self.deep_from:
            return self.deep.value(text, at, level)
        first = text[at : at + 1]
        if first == "{" or first == "[":
            self.demand("depth", level <= self.depth)
            return self.members(text, at + 1, level) if first == "{" else self.elements(text, at + 1, level)
        if first and first in self.quotes:
            return self.string(text, at + 1, first)
        if match := self.patterns["number"].match(text, at):
            return self.convert(match[0]), match.end()
        if match := self.patterns["word"].match(text, at):
            return self.words[match[0]], match.end()
        # The check can be left out only before a comma or bracket, so that every step of
        # a broken parser makes progress.
        if first not in (",", "}", "]"):
            raise Refused("value")
        self.demand("value", False)
        return None, at

    def members(self, text: str, at: int, level: int) -> tuple[object, int]:
        """Return an object as pairs, and the position after its closing brace."""
        found = Pairs()
        at = self.skip(text, at)
        self.demand("cut-off", at < len(text))
        more = text[at : at + 1] not in ("}", "")
        if not more:
            return found, min(at + 1, len(text))
        while more:
            key, at = self.key(text, at)
            at = self.skip(text, at)
            colon = text[at : at + 1] == ":"
            self.demand("colon", colon)
            value, at = self.value(text, self.skip(text, at + colon), level + 1)
            found.append((key, value))
            at, more = self.after(text, at, "}")
        return found, at

    def key(self, text: str, at: int) -> tuple[str, int]:
        quote = text[at : at + 1]
        if quote and quote in self.quotes:
            return self.string(text, at + 1, quote)
        match = self.patterns["bare_key"].match(text, at)
        if match is None:
            raise Refused("key")
        return match[0], match.end()

    def elements(self, text: str, at: int, level: int) -> tuple[object, int]:
        """Return the elements of an array, and the position after its closing bracket."""
        found: list[object] = []
        at = self.skip(text, at)
        more = text[at : at + 1] != "]"
        if not more:
            return found, at + 1
        while more:
            value, at = self.value(text, at, level + 1)
            found.append(value)
            at, more = self.after(text, at, "]")
        return found, at

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        """Return the position after an element and its comma, and whether another element begins there."""
        if match := self.patterns["comma"].match(text, at):
            at = match.end()
            last = text.startswith(closing, at)
            if last:
                self.demand(f"trailing-comma{closing}", False)
            return at + last, not last
        at = self.skip(text, at)
        char = text[at : at + 1]
        if char != closing:
            check = "cut-off" if not char else "other-bracket" if char in "}]" else "comma"
            self.demand(check, False)
            return (at, True) if check == "comma" else (at + len(char), False)
        return at + 1, False

    def skip(self, text: str, at: int) -> int:
        match = self.patterns["space"].match(text, at)
        return match.end() if match else at

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        """Return the decoded string whose opening quote precedes ``at``, and the position after it."""
        plain, parts = self.patterns[quote], []
        while True:
            match = plain.match(text, at)
            assert match is not None
            parts.append(match[0])
            at = match.end()
            if text[at : at + 1] != "\\":
                break
            char, at = self.escape(text, at + 1)
            parts.append(char)
        self.demand("closing-quote", text[at : at + 1] == quote)
        return self.finish("".join(parts)), at + 1

    def escape(self, text: str, at: int) -> tuple[str, int]:
        """Return the character that an escape represents; ``at`` is the position after the backslash."""
        letter = text[at : at + 1]
        if letter == "u" and (match := self.patterns["hex4"].match(text, at + 1)):
            return chr(int(match[0], 16)), match.end()
        if letter not in self.escapes:
            self.demand("escape", False)
        return self.escapes.get(letter, letter), at + len(letter)
