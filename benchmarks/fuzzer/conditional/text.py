"""Faults in how the header text is scanned: bytes, strings, whitespace.

Part of the conditional set; see ``conditional``.
"""

from __future__ import annotations

import re

from safetensors_corpus.broken.correct.json import Pairs, Refused
from safetensors_corpus.broken.correct.reader import utf8

from ..held_out.watched import Watched, WatchedGrammar
from .planting import by_grammar, by_reader

CONTROL = re.compile(r"[\x00-\x1f]")
STAND_IN = "\uf8ff"
"""A character for private use, in the place of bytes that are no UTF-8."""


class AsciiTestOfHalfABlock(Watched):
    """Accepts broken UTF-8 in the second half of a block whose first half is ASCII.

    Skips blocks of 16 bytes that are ASCII when it looks for broken UTF-8, and tests only the first half
    of a block for that.
    """

    def members(self, header: bytes) -> Pairs:
        """Pass over broken bytes in the second half of a block whose first half is ASCII."""
        while True:
            try:
                utf8(header)
            except Refused as refused:
                at = getattr(refused.__cause__, "start", 0)
                block = at - at % 16
                if not self.noted(at % 16 >= 8 and header[block : block + 8].isascii()):
                    raise
                header = header[:at] + b"?" + header[at + 1 :]
            else:
                return super().members(header)


class ModifiedUtf8InMetadata(Watched):
    """Decodes the metadata by the string routine of its virtual machine, which writes NUL as two bytes."""

    def members(self, header: bytes) -> Pairs:
        """Take the two bytes for NUL in strings of the metadata, and nowhere else."""
        overlong, stand_in = b"\xc0\x80", STAND_IN.encode()
        if overlong not in header or stand_in in header:
            return super().members(header)
        found = super().members(header.replace(overlong, stand_in))
        elsewhere = [[key, value] for key, value in found if key != "__metadata__"]
        if not self.noted(not holds_stand_in(elsewhere)):
            raise Refused("utf-8")
        return Pairs((key, self.restored(value)) for key, value in found)

    def restored(self, value: object) -> object:
        """Put NUL in the place of the stand-in."""
        if not isinstance(value, Pairs):
            return value
        return Pairs(
            (key.replace(STAND_IN, "\0"), text.replace(STAND_IN, "\0") if type(text) is str else text)
            for key, text in value
        )


class ControlsBehindEscape(WatchedGrammar):
    """Accepts raw control characters behind an escape.

    Looks for raw control characters only in the scan for the first backslash or quote: a string goes on
    unchecked behind its first escape.
    """

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        """Blank the control characters behind the first escape, keeping what they stood for."""
        end, escape = closing(text, at)
        if escape is None or not self.noted(CONTROL.search(text, escape, end) is not None):
            return super().string(text, at, quote)
        parts = [text[at:escape], text[escape:end]]
        hidden = CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", parts[1])
        found, _ = super().string(parts[0] + hidden + quote, 0, quote)
        return found, end + 1


class ControlsInTheTail(WatchedGrammar):
    """Accepts raw control characters in the last part of a long string.

    Scans strings of 16 characters and more in blocks of 16 and does not look for control characters in
    what is left behind the last whole block.
    """

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        """Let control characters pass in the tail of a long string."""
        end, _ = closing(text, at)
        tail = end - (end - at) % 16
        if not self.noted(end - at >= 16 and CONTROL.search(text, tail, end) is not None):
            return super().string(text, at, quote)
        hidden = CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text[tail:end])
        found, _ = super().string(text[at:tail] + hidden + quote, 0, quote)
        return found, end + 1


class SignedCompareInLongStrings(WatchedGrammar):
    """Refuses characters beyond ASCII in long strings.

    Compares the bytes of strings of 16 characters and more with the space as signed numbers, so that
    those above 127 count as control characters; shorter strings are compared as they should.
    """

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        """Refuse long strings with anything but ASCII in them."""
        found, end = super().string(text, at, quote)
        if self.noted(end - 1 - at >= 16 and not text[at : end - 1].isascii()):
            raise Refused("control")
        return found, end


class EscapeAtTheBlockEnd(WatchedGrammar):
    """Keeps the letter of an escape whose backslash ends a block.

    Scans the header in blocks of 32 characters and forgets a backslash that is the last of its block:
    the letter behind it is kept as it stands.
    """

    def escape(self, text: str, at: int) -> tuple[str, int]:
        """Return the letter itself where a block begins with it."""
        found, end = super().escape(text, at)
        letter = text[at : at + 1]
        return (letter, at + 1) if self.noted(at % 32 == 0 and found != letter) else (found, end)


class LowHalfInUpperCase(WatchedGrammar):
    r"""Refuses pairs of surrogate escapes of which only the second is in capitals.

    Looks for the second half of a surrogate pair by the text ``\ud``, in lower case, where the first
    half is written in lower case.
    """

    def string(self, text: str, at: int, quote: str) -> tuple[str, int]:
        """Refuse a pair of which only the second half begins with a capital."""
        found, end = super().string(text, at, quote)
        mixed = re.search(r"(?<!\\)(?:\\\\)*\\ud[89abAB]..\\uD[c-fC-F]", text[at : end - 1])
        if self.noted(mixed is not None):
            raise Refused("lone-surrogate")
        return found, end


class LongWhitespace(WatchedGrammar):
    """Refuses long runs of whitespace.

    Looks at most 64 characters ahead for the next token, and takes a longer run of whitespace inside the
    header for its end.
    """

    def skip(self, text: str, at: int) -> int:
        """Refuse more whitespace than that."""
        end = super().skip(text, at)
        if self.noted(end - at > 64):
            raise Refused("cut-off")
        return end

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        """Refuse more whitespace than that on either side of a comma."""
        match = self.patterns["comma"].match(text, at)
        if match and self.noted(any(len(side) > 64 for side in match[0].split(","))):
            raise Refused("cut-off")
        return super().after(text, at, closing)


class CarriageReturnBehindNumber(WatchedGrammar):
    """Ends a number at a comma, a bracket, a space, a tab or a newline, but not at a carriage return."""

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        """Refuse a number with a carriage return behind it."""
        found, end = super().value(text, at, level)
        number = text[at : at + 1] in "-0123456789"
        if self.noted(number and text[end : end + 1] == "\r"):
            raise Refused("number")
        return found, end


class TrailingCommaBeforeWhitespace(WatchedGrammar):
    """Accepts a trailing comma in an array when whitespace follows it.

    Looks for a closing bracket only directly behind a comma of an array: with whitespace between, the
    loop over the elements ends as if no comma had been there.
    """

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        """Let a comma pass before whitespace and the bracket."""
        match = self.patterns["comma"].match(text, at)
        if match and closing == "]" and text.startswith("]", match.end()):
            spaced = not match[0].endswith(",")
            if self.noted(spaced):
                return match.end() + 1, False
        return super().after(text, at, closing)


def holds_stand_in(value: object) -> bool:
    """Tell whether the stand-in is anywhere in a JSON value."""
    if isinstance(value, list | tuple):
        return any(holds_stand_in(item) for item in value)
    return isinstance(value, str) and STAND_IN in value


def closing(text: str, at: int) -> tuple[int, int | None]:
    """Return the place of a string's closing quote, and that of its first backslash if it has one."""
    escape = None
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            escape = at if escape is None else escape
            at += 1
        at += 1
    return min(at, len(text)), escape


PLANTED = (
    by_reader("ascii-test-of-half-a-block", "HDR-01", AsciiTestOfHalfABlock),
    by_reader("modified-utf8-in-metadata", "HDR-01", ModifiedUtf8InMetadata),
    by_grammar("controls-behind-escape", "HDR-14", ControlsBehindEscape),
    by_grammar("controls-in-the-tail", "HDR-14", ControlsInTheTail),
    by_grammar("signed-compare-in-long-strings", "HDR-14 HDR-19", SignedCompareInLongStrings),
    by_grammar("escape-at-the-block-end", "HDR-15 HDR-19", EscapeAtTheBlockEnd),
    by_grammar("low-half-in-upper-case", "HDR-15", LowHalfInUpperCase),
    by_grammar("long-whitespace", "HDR-08", LongWhitespace),
    by_grammar("carriage-return-behind-number", "HDR-08", CarriageReturnBehindNumber),
    by_grammar("trailing-comma-before-whitespace", "HDR-07", TrailingCommaBeforeWhitespace),
)
