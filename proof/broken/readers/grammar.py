"""Broken readers: JSON and numbers that are taken although the grammar forbids them.

All of them skip unknown fields, which is an allowed choice, so that a fault inside such a field shows too.
Some pick the header to pieces instead of parsing it. Rules: HDR-06, HDR-07, HDR-14 to HDR-18, SHP-02, OFF-02.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from ..correct.json import ESCAPES, HALF, NUMBER, WORDS, Grammar, Number, Pairs, join_surrogates, paired
from ..correct.reader import IGNORING, SmallReader, plain_integer, utf8
from ..variant import Panic, reading
from .entries import FieldsByPlace

COMMENT = r"(?:[ \t\n\r]|/\*(?s:.*?)\*/)*"
LINE_COMMENT = r"(?:[ \t\n\r]|//[^\n]*\n|#[^\n]*\n)*"
ALL_FORGIVING = frozenset({
    "closing-quote", "escape", "value", "comma", "colon", "cut-off", "other-bracket", "trailing-comma}",
    "trailing-comma]", "depth",
})  # fmt: skip


def _missing(*checks: str) -> dict[str, Any]:
    return {"left_out": frozenset(checks)}


def _unchecked(text: str) -> object:
    return Number(text)


def latin_1(header: bytes) -> str:
    return header.decode("latin-1")


def _joined_in_any_order(text: str) -> str:
    return join_surrogates(re.sub("([\udc00-\udfff])([\ud800-\udbff])", r"\2\1", paired(text)))


FORGIVING: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("trailing-comma-in-object", "Takes a comma behind the last member.", _missing("trailing-comma}")),
    ("trailing-comma-in-array", "Takes a comma behind the last element.", _missing("trailing-comma]")),
    ("no-comma", "Takes members and elements without comma.", _missing("comma")),
    ("no-colon", "Takes a key without colon.", _missing("colon")),
    ("no-value", "Takes a missing value for null.", _missing("value")),
    ("cut-off", "Takes an object or array that the text does not close.", _missing("cut-off")),
    ("other-bracket", "Takes one closing bracket for the other.", _missing("other-bracket")),
    ("any-escape", "Takes an unknown escape for the character itself.", _missing("escape")),
    ("no-depth-limit", "Descends without limit.", _missing("depth")),
    ("block-comments", "Skips block comments.", {"space": COMMENT}),
    ("line-comments", "Skips line comments.", {"space": LINE_COMMENT}),
    ("commas-as-space", "Treats commas as whitespace.", {"space": r"[ \t\n\r,]*", **_missing("comma")}),
    ("form-feed-as-space", "Skips form feeds and vertical tabs.", {"space": r"[ \t\n\r\f\v]*"}),
    ("nul-as-space", "Skips NUL between tokens.", {"space": r"[ \t\n\r\0]*"}),
    ("unicode-space", "Skips Unicode whitespace.", {"space": r"\s*"}),
    ("byte-order-mark-as-space", "Skips byte-order marks between tokens.", {"space": "[ \t\n\r\ufeff]*"}),
    ("single-quotes", "Takes strings in single quotes.", {"quotes": "\"'"}),
    ("bare-keys", "Takes keys without quotes.", {"bare_key": r"[A-Za-z_]\w*"}),
    ("bare-values", "Takes words without quotes as strings.",
     {"words": {**WORDS, **{word: word for word in ("F32", "U8", "F16", "x", "y", "pt", "value", "v")}}}),
    ("cut-words", "Knows words by their first letter.",
     {"words": {**WORDS, **{w[:n]: v for w, v in WORDS.items() for n in range(1, len(w))}}}),
    ("raw-controls", "Takes raw control characters in strings.", {"raw": ""}),
    ("raw-tab", "Takes a raw TAB in strings.", {"raw": r"\x00-\x08\x0a-\x1f"}),
    ("raw-line-feed", "Takes a raw line feed in strings.", {"raw": r"\x00-\x09\x0b-\x1f"}),
    ("raw-nul", "Takes a raw NUL in strings.", {"raw": r"\x01-\x1f"}),
    ("hex-escape", "Takes escapes of two hexadecimal digits.", {"escapes": {**ESCAPES, "x": "x"}}),
    ("upper-case-u", "Takes an escape with a capital u.", {"escapes": {**ESCAPES, "U": "U"}}),
    ("short-code-point", "Takes escapes with fewer than four digits.", {"hex4": "[0-9a-fA-F]{1,4}"}),
    ("loose-code-point", "Reads the digits of an escape as strtol does.", {"hex4": r"[+ ]?[0-9a-fA-F]{3,4}"}),
    ("lone-surrogates-dropped", "Drops a surrogate on its own.",
     {"finish": lambda text: HALF.sub("", paired(text))}),
    ("surrogates-swapped", "Joins two surrogates in the wrong order.", {"finish": _joined_in_any_order}),
)  # fmt: skip


class FixedStack(Grammar):
    """Keeps the levels of nesting in an array of 127 and does not look at its end."""

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        if level > 127 and text[at : at + 1] in ("{", "["):
            raise Panic("stack of 127 levels")
        return super().value(text, at, level)


class SkipsJunk(Grammar):
    """Goes on at the next comma or bracket, whatever stands in front of it."""

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        match = re.search(r"[,}\]]", text[at:])
        return super().after(text, at + match.start() if match else at, closing)


class RawBackslash(Grammar):
    """Knows no escapes: a backslash stands for itself, also in front of a quote."""

    def escape(self, text: str, at: int) -> tuple[str, int]:  # noqa: ARG002
        return "\\", at


NOT_PARSED = Grammar(left_out=ALL_FORGIVING, raw="", number=r"[^\s,\]\}\"':\[\{]+", convert=_unchecked,
                     space=COMMENT, quotes="\"'", finish=paired)  # fmt: skip
HAND_WRITTEN = FieldsByPlace(decode=latin_1, grammar=replace(NOT_PARSED, escapes={}))


@dataclass(frozen=True)
class _Scans(SmallReader):
    """Where it cannot parse the header, looks for the words of an entry and takes what stands behind them."""

    word: str = r'"(?:[^"\\]|\\.)*"|[^\s"\'{}\[\]:,]+'

    def members(self, header: bytes) -> Pairs:
        try:
            return super().members(header)
        except Refused:
            return self.scanned(header)

    def scanned(self, header: bytes) -> Pairs:
        tokens = [(m[0].strip('"'), m.start()) for m in re.finditer(self.word, self.decode(header))]
        found = Pairs()
        words = [token for token, _ in tokens]
        place = 0
        while "dtype" in words[place:] or "shape" in words[place:]:
            starts = [
                words.index(key, place) for key in ("dtype", "shape", "data_offsets") if key in words[place:]
            ]
            first = min(starts)
            name = words[first - 1] if first > place else ""
            fields, place = self.fields(words, first)
            found.append((name, fields))
        return found

    def fields(self, words: list[str], place: int) -> tuple[Pairs, int]:
        fields: dict[str, object] = {}
        while place < len(words) and words[place] not in fields and len(fields) < 3:
            key = words[place]
            place += 1
            if key == "dtype":
                fields[key] = words[place] if place < len(words) else ""
                place += 1
            elif key in ("shape", "data_offsets"):
                numbers = []
                while place < len(words) and re.fullmatch("[0-9]+", words[place]):
                    numbers.append(Number(words[place]))
                    place += 1
                fields[key] = numbers
            elif fields:
                place += 1
            if (
                place < len(words)
                and words[place] not in ("dtype", "shape", "data_offsets")
                and len(fields) < 3
            ):
                place += 1
        return Pairs(fields.items()), place


RUN = r"[^\s,\]\}\"':\[\{tfn]+"
"""Whatever may be meant as a number."""
NAMES = ("NaN", "Infinity", "-Infinity", "-NaN")
CONSTANTS: dict[str, object] = {**WORDS, **{name: Number(name) for name in NAMES}}
INTEGER = Callable[[object], int]


def _kept(text: str) -> object:
    return Number(text)


def _to_double(text: str) -> object:
    if not re.fullmatch("-?[0-9]+", text) and abs(float(text)) == float("inf"):
        raise Panic("float to integer")
    return Number(text)


def _digits_copied(text: str) -> object:
    if len(text) > 63:
        raise Panic("buffer of 64 characters")
    return Number(text)


def _as_python(value: object) -> int:
    """Convert what Python's ``int`` takes, and hexadecimal numbers and bare points besides."""
    if not isinstance(value, Number) or value.startswith("-"):
        raise Refused("integer")
    text = value.lower()
    try:
        number = int(text, 16) if text.startswith("0x") else int(float(text)) if "." in text else int(text)
    except (ValueError, OverflowError) as err:
        raise Refused("integer") from err
    if number >= 2**64:
        raise Refused("integer-range")
    return number


def _as_strtoull(value: object) -> int:
    """Convert the digits in front, none of them to zero, and an exponent as far as it goes."""
    if not isinstance(value, Number):
        raise Refused("integer")
    digits = re.match("[0-9]*", value)
    return int(digits[0][:19] or 0) if digits else 0


def _cast(value: object) -> int:
    if isinstance(value, Number) and value in NAMES:
        raise Panic("cast of a double")
    return plain_integer(value)


def _zero_otherwise(value: object) -> int:
    try:
        return plain_integer(value)
    except Refused:
        return 0


SIZES = ("range-size", "reversed", "hole", "overlap", "past-end", "trailing")
"""Checks that compare numbers of the header with each other and with the file."""


class _Clamped(SmallReader):
    """Cuts the data at offsets that may lie anywhere behind it."""

    def content(self, file: bytes) -> dict[str, Any]:
        size = len(self.split(file)[1])

        def clamped(value: object) -> int:
            if isinstance(value, Number) and (value == "Infinity" or len(value) > 20):
                return size
            return min(plain_integer(value), size)

        return SmallReader.content(replace(IGNORING, grammar=self.grammar, offset=clamped), file)


NUMBERS: tuple[tuple[str, str, str, INTEGER], ...] = (
    ("leading-zeros", "Takes numbers with leading zeros.",
     NUMBER.replace("0|[1-9][0-9]*", "[0-9]+"), _as_python),
    ("plus-sign", "Takes a plus sign before a number.", NUMBER.replace("-?", "[-+]?", 1), _as_python),
    ("hexadecimal", "Takes hexadecimal numbers.", f"0[xX][0-9a-fA-F]+|{NUMBER}", _as_python),
    ("point-first", "Takes a number that begins with its point.",
     r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", _as_python),
    ("point-last", "Takes a number that ends with its point.",
     NUMBER.replace(r"\.[0-9]+", r"\.[0-9]*"), _as_python),
    ("exponent-empty", "Takes an exponent without digits.",
     NUMBER.replace("[+-]?[0-9]+)?", "[+-]?[0-9]*)?"), _as_strtoull),
    ("junk-behind-number", "Takes letters behind a number.", rf"(?:{NUMBER})[A-Za-z.+]*", _as_strtoull),
    ("numbers-as-python", "Takes the numbers that Python's int takes.", RUN, _as_python),
    ("numbers-as-strtoull", "Takes the numbers that C's strtoull takes.", RUN, _as_strtoull),
)  # fmt: skip
CONVERSIONS: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    ("number-to-double-crash", "Crashes on a number beyond double precision.", _to_double),
    ("number-buffer-crash", "Copies the digits of a number into 64 bytes.", _digits_copied),
)


def _lax(pattern: str, convert: INTEGER) -> SmallReader:
    grammar = Grammar(number=pattern, convert=_kept)
    return replace(IGNORING, grammar=grammar, dimension=convert, offset=convert)


def _constants(**changes: Any) -> SmallReader:
    grammar = Grammar(words=CONSTANTS, number=rf"(?!-[IN]){NUMBER}", convert=_kept)
    return replace(IGNORING, grammar=grammar, **changes)


VARIANTS: tuple[Planted, ...] = (
    reading("json-hand-written", "Takes what it needs by its place and never looks at the names of fields.",
            HAND_WRITTEN.without("dtype-known")),
    reading("json-space-removed", "Removes all whitespace first.",
            replace(IGNORING, decode=lambda header: re.sub(r"\s", "", utf8(header)))),
    *(
        reading(f"json-{name}", about, replace(IGNORING, grammar=replace(IGNORING.grammar, **changes)))
        for name, about, changes in FORGIVING
    ),
    reading("json-deep-values-unchecked", "Follows the grammar only in the upper three levels.",
            replace(IGNORING, grammar=Grammar(deep=NOT_PARSED, deep_from=3))),
    reading("json-fixed-stack", "Crashes below 127 levels.",
            replace(IGNORING, grammar=FixedStack(depth=10**6))),
    reading(
        "json-cut-off-empty",
        "Takes a header that is cut off for what came so far, and asks for no more.",
        replace(IGNORING, grammar=Grammar(left_out=frozenset(["cut-off"]))).without("trailing"),
    ),
    reading("json-skips-junk", "Skips what stands behind a value.", replace(IGNORING, grammar=SkipsJunk())),
    reading("json-no-escapes", "Takes a backslash for itself.", replace(IGNORING, grammar=RawBackslash())),
    reading("json-unchecked", "Picks values out of a header that it does not check.",
            replace(IGNORING, grammar=NOT_PARSED)),
    reading("json-scanned", "Looks for words and numbers in a header that it cannot parse.", _Scans()),
    reading(
        "json-scanned-loosely",
        "Looks for words and numbers in such a header, in any encoding, and takes any dtype.",
        _Scans(word=r"[\w+-]+", decode=latin_1).without("dtype-known"),
    ),
    *(reading(f"json-{name}", about, _lax(pattern, convert)) for name, about, pattern, convert in NUMBERS),
    *(reading(f"json-{name}", about, replace(IGNORING, grammar=Grammar(convert=convert)))
      for name, about, convert in CONVERSIONS),
    reading("json-constants", "Takes NaN and infinities where no integer is needed.", _constants()),
    reading("json-constants-cast", "Crashes on NaN and infinities in integers.",
            _constants(dimension=_cast, offset=_cast)),
    reading("numbers-guessed", "Takes what is no number for zero, and compares no sizes.",
            replace(IGNORING, dimension=_zero_otherwise, offset=_zero_otherwise).without(*SIZES)),
    reading("numbers-by-look", "Takes any word for a number, and compares no sizes.",
            _lax(NOT_PARSED.number, _as_strtoull).without(*SIZES)),
    reading("json-skips-letters", "Skips letters between tokens.",
            replace(IGNORING, grammar=Grammar(space=r"[ \t\n\rA-Za-z]*"))),
    reading("offset-clamped", "Cuts the data at offsets behind its end.",
            _Clamped(grammar=_constants().grammar)),
)  # fmt: skip
