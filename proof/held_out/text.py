"""Held-out readers with a bug in the text of the header, in UTF-8 or JSON (HDR). See ``held_out``."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from proof.broken.correct.json import HALF, Pairs, join_surrogates
from proof.broken.correct.reader import SmallReader
from proof.planted import Planted, Probe
from safetensors_corpus.judging.answer import Refused

from .watched import SPELLING, Watched, WatchedGrammar, note, plant, plant_grammar, raw

CUT_OFF = re.compile(rb'[\xc2-\xf4][\x80-\xbf]*(?=")')
HALVES = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")
SWAPPED = re.compile("(?<![\ud800-\udbff])[\udc00-\udfff][\ud800-\udbff](?![\udc00-\udfff])")
ZEROS = re.compile("(?:0+(?=[0-9]))?")
UNCHECKED = re.compile(r'[^"\\]*')
CONTROL = re.compile(r"[\x00-\x1f]")
ESCAPED_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")
STACK = 48
"""Levels of nesting that fit on the stack of the reader that does not count them."""


class CutByQuote(Watched):
    """Drops a UTF-8 sequence that is cut off by the closing quote."""

    def members(self, header: bytes) -> Pairs:
        mended = CUT_OFF.sub(_whole, header)
        return super().members(mended if self.noted(mended != header) else header)


def _whole(match: re.Match[bytes]) -> bytes:
    try:
        match[0].decode()
    except UnicodeDecodeError as err:
        return b"" if err.reason == "unexpected end of data" else match[0]
    return match[0]


class HalvesJoined(Watched):
    """Decodes UTF-8 through UTF-16, in which two encoded surrogates form one character."""

    def members(self, header: bytes) -> Pairs:
        joined = HALVES.sub(_joined, header)
        return super().members(joined if self.noted(joined != header) else header)


def _joined(match: re.Match[bytes]) -> bytes:
    text = match[0].decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16").encode()


def _either_order(probe: Probe, text: str) -> str:
    if HALF.search(text):
        swapped = SWAPPED.sub(lambda match: match[0][::-1], text)
        text = swapped if note(probe, swapped != text) else text
    return join_surrogates(text)


def _halves_in_any_order(probe: Probe) -> SmallReader:
    grammar = WatchedGrammar(finish=partial(_either_order, probe), probe=probe)
    return SmallReader(grammar=grammar)


class NewlineSeparates(WatchedGrammar):
    """Treats the end of a line as a comma."""

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        place = self.skip(text, at)
        if self.noted("\n" in text[at:place] and text[place : place + 1] not in ("", ",", "}", "]")):
            return place, True
        return super().after(text, at, closing)


class ControlAfterEscape(WatchedGrammar):
    """Copies the rest of a string after an escape in a loop that looks only for the closing quote."""

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        pattern, parts = self.patterns[quote], []
        while True:
            match = pattern.match(text, at)
            assert match is not None
            if pattern is UNCHECKED:
                self.noted(CONTROL.search(match[0]) is not None)
            parts.append(match[0])
            at = match.end()
            if text[at : at + 1] != "\\":
                break
            char, at = self.escape(text, at + 1)
            parts.append(char)
            pattern = UNCHECKED
        self.demand("closing-quote", text[at : at + 1] == quote)
        return self.finish("".join(parts)), at + 1


class ZeroBeforeLater(WatchedGrammar):
    """Parses the first number of an array strictly, and the others in a loop that accepts all digits."""

    def elements(self, text: str, at: int, level: int) -> tuple[object, int]:
        found: list[object] = []
        at = self.skip(text, at)
        more = text[at : at + 1] != "]"
        if not more:
            return found, at + 1
        while more:
            if found:
                zeros = ZEROS.match(text, at)
                assert zeros is not None
                self.noted(zeros.end() > at)
                at = zeros.end()
            value, at = self.value(text, at, level + 1)
            found.append(value)
            at, more = self.after(text, at, "]")
        return found, at


class SpaceInEmpty(WatchedGrammar):
    """Expects the closing bracket immediately if an array has no elements."""

    def elements(self, text: str, at: int, level: int) -> tuple[object, int]:
        place = self.skip(text, at)
        if self.noted(place > at and text[place : place + 1] == "]"):
            raise Refused("value")
        return super().elements(text, at, level)


class StackOverflow(WatchedGrammar):
    """Counts the levels of objects but not those of arrays."""

    def elements(self, text: str, at: int, level: int) -> tuple[object, int]:
        if self.noted(level > STACK):
            raise RecursionError("stack")
        return super().elements(text, at, level)


class SlashKept(WatchedGrammar):
    """Decodes all escapes in values, but does not decode the escape of the slash in keys."""

    def key(self, text: str, at: int) -> tuple[str, int]:
        key, end = super().key(text, at)
        return key.replace("/", "\\/") if self.noted(bool(ESCAPED_SLASH.search(text, at, end))) else key, end


class CutAtNul(Watched):
    """Returns metadata values as strings that end at the first NUL."""

    def metadata(self, value: object) -> dict[str, Any] | None:
        found = super().metadata(value)
        if not self.noted(any("\0" in text for text in (found or {}).values())):
            return found
        return {key: text.split("\0")[0] for key, text in (found or {}).items()}


class AstralName(Watched):
    """Looks up the characters of a name in a table that ends at U+FFFF, before it decodes escapes."""

    def members(self, header: bytes) -> Pairs:
        found = super().members(header)
        if self.noted(any(max(raw(name), default="") > "\uffff" for name, _ in found)):
            raise OverflowError("no such character")
        return found


PLANTED = (
    plant(
        "sequence-cut-by-quote",
        "Accepts a UTF-8 sequence that is cut off if a closing quote follows.",
        "HDR-01",
        CutByQuote,
    ),
    plant(
        "surrogate-halves-in-utf8",
        "Accepts two surrogates encoded in UTF-8 if they form a pair.",
        "HDR-01",
        HalvesJoined,
    ),
    Planted(
        "surrogates-swapped",
        "Accepts a pair of surrogate escapes in the wrong order.",
        "read",
        _halves_in_any_order,
        ("HDR-15",),
    ),
    plant_grammar(
        "newline-for-comma",
        "Accepts a missing comma between two elements if a line feed takes its place.",
        "HDR-07",
        NewlineSeparates,
    ),
    plant_grammar(
        "control-after-escape",
        "Accepts raw control characters in a string after the first escape.",
        "HDR-14",
        ControlAfterEscape,
    ),
    plant_grammar(
        "leading-zero-behind-first",
        "Accepts leading zeros in all numbers of an array except the first.",
        "HDR-07 SHP-02",
        ZeroBeforeLater,
    ),
    plant_grammar(
        "space-in-empty-array",
        "Rejects whitespace between the brackets of an empty array.",
        "HDR-08",
        SpaceInEmpty,
    ),
    plant_grammar(
        "deep-arrays-crash",
        "Crashes on arrays that are nested more than 48 levels deep.",
        "HDR-16",
        StackOverflow,
    ),
    plant_grammar(
        "escaped-slash-in-key",
        "Returns names and metadata keys with the backslash if a slash in them is escaped.",
        "HDR-15 HDR-19",
        SlashKept,
    ),
    plant(
        "metadata-value-cut-at-nul",
        "Returns metadata values only up to the first NUL.",
        "MET-04",
        CutAtNul,
    ),
    plant(
        "raw-astral-name-crash",
        "Crashes on a name with an unescaped character beyond U+FFFF.",
        "ENT-08",
        AstralName,
        SPELLING,
    ),
)
