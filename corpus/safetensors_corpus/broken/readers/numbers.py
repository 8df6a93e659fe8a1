"""Broken readers: numbers that JSON does not know, and what becomes of them (HDR-07, HDR-18, SHP-02, OFF-02).

As in ``grammar``, all of them skip unknown fields, so that a number in such a field shows too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..correct.json import NUMBER, WORDS, Grammar, Number, Refused
from ..correct.reader import IGNORING, SmallReader, plain_integer
from ..variant import Panic, Variant, reading

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
    """Cast a double to an integer without a look at its range."""
    if isinstance(value, Number) and value in NAMES:
        raise Panic("cast of a double")
    return plain_integer(value)


class Clamped(SmallReader):
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


VARIANTS: tuple[Variant, ...] = (
    *(reading(f"json-{name}", about, _lax(pattern, convert)) for name, about, pattern, convert in NUMBERS),
    *(reading(f"json-{name}", about, replace(IGNORING, grammar=Grammar(convert=convert)))
      for name, about, convert in CONVERSIONS),
    reading("json-constants", "Takes NaN and infinities where no integer is needed.", _constants()),
    reading("json-constants-cast", "Crashes on NaN and infinities in integers.",
            _constants(dimension=_cast, offset=_cast)),
    reading("offset-clamped", "Cuts the data at offsets behind its end.",
            Clamped(grammar=_constants().grammar)),
)  # fmt: skip
