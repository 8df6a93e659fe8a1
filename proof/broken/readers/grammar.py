"""Broken readers that accept JSON and numbers that the grammar forbids.

All of them skip unknown fields, which the format allows, so that faults inside such fields matter too. Some
variants search the header for values instead of parsing it. Rules: HDR-06, HDR-07, HDR-14 to HDR-18, SHP-02,
OFF-02.
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
    ("trailing-comma-in-object", "Accepts a comma after the last member.", _missing("trailing-comma}")),
    ("trailing-comma-in-array", "Accepts a comma after the last element.", _missing("trailing-comma]")),
    ("no-comma", "Accepts members and elements without a comma between them.", _missing("comma")),
    ("no-colon", "Accepts a key without a colon.", _missing("colon")),
    ("no-value", "Treats a missing value as null.", _missing("value")),
    ("cut-off", "Accepts an object or array that is not closed.", _missing("cut-off")),
    ("other-bracket", "Accepts one closing bracket in place of the other.", _missing("other-bracket")),
    ("any-escape", "Treats an unknown escape as the character itself.", _missing("escape")),
    ("no-depth-limit", "Parses nested values without a limit on the depth.", _missing("depth")),
    ("block-comments", "Skips block comments.", {"space": COMMENT}),
    ("line-comments", "Skips line comments.", {"space": LINE_COMMENT}),
    ("commas-as-space", "Treats commas as whitespace.", {"space": r"[ \t\n\r,]*", **_missing("comma")}),
    ("form-feed-as-space", "Skips form feeds and vertical tabs.", {"space": r"[ \t\n\r\f\v]*"}),
    ("nul-as-space", "Skips NUL between tokens.", {"space": r"[ \t\n\r\0]*"}),
    ("unicode-space", "Skips Unicode whitespace.", {"space": r"\s*"}),
    ("byte-order-mark-as-space", "Skips byte-order marks between tokens.", {"space": "[ \t\n\r\ufeff]*"}),
    ("single-quotes", "Accepts strings in single quotes.", {"quotes": "\"'"}),
    ("bare-keys", "Accepts keys without quotes.", {"bare_key": r"[A-Za-z_]\w*"}),
    ("bare-values", "Treats words without quotes as strings.",
     {"words": {**WORDS, **{word: word for word in ("F32", "U8", "F16", "x", "y", "pt", "value", "v")}}}),
    ("cut-words", "Recognises words by their first letter.",
     {"words": {**WORDS, **{w[:n]: v for w, v in WORDS.items() for n in range(1, len(w))}}}),
    ("raw-controls", "Accepts raw control characters in strings.", {"raw": ""}),
    ("raw-tab", "Accepts a raw TAB in strings.", {"raw": r"\x00-\x08\x0a-\x1f"}),
    ("raw-line-feed", "Accepts a raw line feed in strings.", {"raw": r"\x00-\x09\x0b-\x1f"}),
    ("raw-nul", "Accepts a raw NUL in strings.", {"raw": r"\x01-\x1f"}),
    ("hex-escape", "Accepts escapes of two hexadecimal digits.", {"escapes": {**ESCAPES, "x": "x"}}),
    ("upper-case-u", "Accepts an escape with a capital U.", {"escapes": {**ESCAPES, "U": "U"}}),
    ("short-code-point", "Accepts Unicode escapes with fewer than four digits.",
     {"hex4": "[0-9a-fA-F]{1,4}"}),
    ("loose-code-point", "Reads the digits of an escape as strtol does.", {"hex4": r"[+ ]?[0-9a-fA-F]{3,4}"}),
    ("lone-surrogates-dropped", "Drops a lone surrogate.",
     {"finish": lambda text: HALF.sub("", paired(text))}),
    ("surrogates-swapped", "Joins two surrogates in the wrong order.", {"finish": _joined_in_any_order}),
)  # fmt: skip


class FixedStack(Grammar):
    """Stores the levels of nesting in an array of 127, and does not check for its end."""

    def value(self, text: str, at: int, level: int = 1) -> tuple[object, int]:
        if level > 127 and text[at : at + 1] in ("{", "["):
            raise Panic("stack of 127 levels")
        return super().value(text, at, level)


class SkipsJunk(Grammar):
    """Continues at the next comma or bracket, and ignores everything before it."""

    def after(self, text: str, at: int, closing: str) -> tuple[int, bool]:
        match = re.search(r"[,}\]]", text[at:])
        return super().after(text, at + match.start() if match else at, closing)


class RawBackslash(Grammar):
    """Does not support escapes: a backslash is an ordinary character, even before a quote."""

    def escape(self, text: str, at: int) -> tuple[str, int]:  # noqa: ARG002
        return "\\", at


NOT_PARSED = Grammar(left_out=ALL_FORGIVING, raw="", number=r"[^\s,\]\}\"':\[\{]+", convert=_unchecked,
                     space=COMMENT, quotes="\"'", finish=paired)  # fmt: skip
HAND_WRITTEN = FieldsByPlace(decode=latin_1, grammar=replace(NOT_PARSED, escapes={}))


@dataclass(frozen=True)
class _Scans(SmallReader):
    """Searches a header that it cannot parse for the names of fields, and uses the words that follow them."""

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
"""Pattern that matches anything that may be meant as a number."""
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
    """Convert what Python's ``int`` accepts, and also hexadecimal numbers and decimal fractions."""
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
    """Convert the leading digits as ``strtoull`` does; without leading digits, the result is zero."""
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
"""Checks that compare numbers in the header with each other and with the file size."""


class _Clamped(SmallReader):
    """Clamps offsets beyond the end of the data to that end."""

    def content(self, file: bytes) -> dict[str, Any]:
        size = len(self.split(file)[1])

        def clamped(value: object) -> int:
            if isinstance(value, Number) and (value == "Infinity" or len(value) > 20):
                return size
            return min(plain_integer(value), size)

        return SmallReader.content(replace(IGNORING, grammar=self.grammar, offset=clamped), file)


NUMBERS: tuple[tuple[str, str, str, INTEGER], ...] = (
    ("leading-zeros", "Accepts numbers with leading zeros.",
     NUMBER.replace("0|[1-9][0-9]*", "[0-9]+"), _as_python),
    ("plus-sign", "Accepts a plus sign before a number.", NUMBER.replace("-?", "[-+]?", 1), _as_python),
    ("hexadecimal", "Accepts hexadecimal numbers.", f"0[xX][0-9a-fA-F]+|{NUMBER}", _as_python),
    ("point-first", "Accepts a number that begins with a decimal point.",
     r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", _as_python),
    ("point-last", "Accepts a number that ends with a decimal point.",
     NUMBER.replace(r"\.[0-9]+", r"\.[0-9]*"), _as_python),
    ("exponent-empty", "Accepts an exponent without digits.",
     NUMBER.replace("[+-]?[0-9]+)?", "[+-]?[0-9]*)?"), _as_strtoull),
    ("junk-behind-number", "Accepts letters after a number.", rf"(?:{NUMBER})[A-Za-z.+]*", _as_strtoull),
    ("numbers-as-python", "Accepts the numbers that Python's int accepts.", RUN, _as_python),
    ("numbers-as-strtoull", "Accepts the numbers that C's strtoull accepts.", RUN, _as_strtoull),
)  # fmt: skip
CONVERSIONS: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    ("number-to-double-crash", "Crashes on a number beyond double precision.", _to_double),
    ("number-buffer-crash", "Crashes when it copies more than 64 digits into a buffer.", _digits_copied),
)


def _lax(pattern: str, convert: INTEGER) -> SmallReader:
    grammar = Grammar(number=pattern, convert=_kept)
    return replace(IGNORING, grammar=grammar, dimension=convert, offset=convert)


def _constants(**changes: Any) -> SmallReader:
    grammar = Grammar(words=CONSTANTS, number=rf"(?!-[IN]){NUMBER}", convert=_kept)
    return replace(IGNORING, grammar=grammar, **changes)


VARIANTS: tuple[Planted, ...] = (
    reading("json-hand-written", "Reads values by their position, and never checks the names of fields.",
            HAND_WRITTEN.without("dtype-known")),
    reading("json-space-removed", "Removes all whitespace before it parses the header.",
            replace(IGNORING, decode=lambda header: re.sub(r"\s", "", utf8(header)))),
    *(
        reading(f"json-{name}", about, replace(IGNORING, grammar=replace(IGNORING.grammar, **changes)))
        for name, about, changes in FORGIVING
    ),
    reading("json-deep-values-unchecked", "Checks the grammar only in the upper three levels.",
            replace(IGNORING, grammar=Grammar(deep=NOT_PARSED, deep_from=3))),
    reading("json-fixed-stack", "Crashes below 127 levels of nesting.",
            replace(IGNORING, grammar=FixedStack(depth=10**6))),
    reading(
        "json-cut-off-empty",
        "Accepts a truncated header, and uses the part that it has parsed.",
        replace(IGNORING, grammar=Grammar(left_out=frozenset(["cut-off"]))).without("trailing"),
    ),
    reading("json-skips-junk", "Ignores everything between a value and the next comma or bracket.",
            replace(IGNORING, grammar=SkipsJunk())),
    reading("json-no-escapes", "Treats a backslash as an ordinary character.",
            replace(IGNORING, grammar=RawBackslash())),
    reading("json-unchecked", "Extracts values from a header without checking its syntax.",
            replace(IGNORING, grammar=NOT_PARSED)),
    reading("json-scanned", "Searches a header that it cannot parse for words and numbers.", _Scans()),
    reading(
        "json-scanned-loosely",
        "Searches a header that it cannot parse for words in any encoding, and accepts any dtype.",
        _Scans(word=r"[\w+-]+", decode=latin_1).without("dtype-known"),
    ),
    *(reading(f"json-{name}", about, _lax(pattern, convert)) for name, about, pattern, convert in NUMBERS),
    *(reading(f"json-{name}", about, replace(IGNORING, grammar=Grammar(convert=convert)))
      for name, about, convert in CONVERSIONS),
    reading("json-constants", "Accepts NaN and infinities where no integer is required.", _constants()),
    reading("json-constants-cast", "Crashes on NaN and infinities in integers.",
            _constants(dimension=_cast, offset=_cast)),
    reading("numbers-guessed", "Treats a value that is not a number as zero, and does not compare sizes.",
            replace(IGNORING, dimension=_zero_otherwise, offset=_zero_otherwise).without(*SIZES)),
    reading("numbers-by-look", "Accepts any word as a number, and does not compare sizes.",
            _lax(NOT_PARSED.number, _as_strtoull).without(*SIZES)),
    reading("json-skips-letters", "Skips letters between tokens.",
            replace(IGNORING, grammar=Grammar(space=r"[ \t\n\rA-Za-z]*"))),
    reading("offset-clamped", "Clamps offsets beyond the end of the data.",
            _Clamped(grammar=_constants().grammar)),
)  # fmt: skip
