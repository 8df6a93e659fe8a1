"""Broken readers: integers in shapes and offsets (SHP-01, SHP-02, SHP-07, OFF-02)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..correct.json import Number, Refused
from ..correct.reader import READER, plain_integer
from ..variant import Panic, Variant, reading

Integer = Callable[[object], int]


def _number(value: object) -> Number:
    if not isinstance(value, Number):
        raise Refused("integer")
    # Converting longer numbers takes a time that grows with the square of their length.
    return Number(value[:400])


def _whole_floats(value: object) -> int:
    found = float(_number(value))
    if found < 0 or not found.is_integer() or re.match("-", _number(value)):
        raise Refused("integer")
    return plain_integer(Number(int(found))) if not _number(value).isdigit() else plain_integer(value)


def _truncated(value: object) -> int:
    return (
        plain_integer(value)
        if _number(value).isdigit()
        else plain_integer(Number(int(float(_number(value)))))
    )


def _doubles(value: object) -> int:
    plain_integer(value)
    return int(float(_number(value)))


def _minus_zero(value: object) -> int:
    return 0 if value == "-0" else plain_integer(value)


def _negative(value: object) -> int:
    return (
        -plain_integer(Number(value[1:]))
        if isinstance(value, Number) and value[:1] == "-"
        else plain_integer(value)
    )


def _absolute(value: object) -> int:
    return abs(_negative(value))


def _modulo(bits: int, signed: bool = False) -> Integer:
    def wrapped(value: object) -> int:
        number = _number(value)
        if not re.fullmatch("-?(0|[1-9][0-9]*)", number) or (number[0] == "-" and not signed):
            raise Refused("integer")
        found: int = int(number) % 2**bits
        return found

    return wrapped


def _signed(bits: int) -> Integer:
    half = 2 ** (bits - 1)
    return lambda value: (plain_integer(value) + half) % (2 * half) - half


def _saturating(value: object) -> int:
    number = _number(value)
    return (
        min(int(number), 2**64 - 1)
        if number.isdigit() and not re.match("0.", number)
        else plain_integer(value)
    )


def _digit_strings(value: object) -> int:
    return plain_integer(Number(value)) if type(value) is str else plain_integer(value)


def _booleans(value: object) -> int:
    return int(value) if isinstance(value, bool) else plain_integer(value)


def _null(value: object) -> int:
    return 0 if value is None else plain_integer(value)


def _nested(value: object) -> int:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return plain_integer(value)


def _crash(value: object) -> int:
    if isinstance(value, Number):
        try:
            return plain_integer(value)
        except Refused as err:
            raise Panic("no conversion") from err
    return plain_integer(value)


def _at_most(limit: int) -> Integer:
    def bounded(value: object) -> int:
        if (found := plain_integer(value)) > limit:
            raise Refused("limit")
        return found

    return bounded


def _first_digits(value: object) -> int:
    """Read digits as far as they go."""
    match = re.match("[0-9]{1,19}", _number(value))
    return int(match[0]) if match else plain_integer(value)


INTEGERS: tuple[tuple[str, str, Integer], ...] = (
    ("whole-floats", "Takes {} written as floats.", _whole_floats),
    ("fractions-cut", "Cuts the fractions of {}.", _truncated),
    ("first-digits", "Reads the digits at the beginning of {}.", _first_digits),
    ("minus-zero", "Takes minus zero among {}.", _minus_zero),
    ("negative", "Takes negative {}.", _negative),
    ("absolute", "Drops the sign of {}.", _absolute),
    ("digit-strings", "Takes {} written as strings.", _digit_strings),
    ("booleans", "Takes booleans among {}.", _booleans),
    ("null", "Takes null among {} for zero.", _null),
    ("nested", "Unpacks arrays among {}.", _nested),
    ("modulo-2p64", "Wraps {} at 64 bits.", _modulo(64)),
    ("modulo-2p64-signed", "Wraps {} at 64 bits, negative ones too.", _modulo(64, signed=True)),
    ("modulo-2p32", "Wraps {} at 32 bits.", _modulo(32)),
    ("saturating", "Holds {} at the largest integer.", _saturating),
    ("crash", "Crashes on a number that it cannot convert in {}.", _crash),
)
DIMENSIONS: tuple[tuple[str, str, Integer], ...] = (
    ("doubles", "Holds dimensions as doubles.", _doubles),
    ("signed-64", "Holds dimensions in signed 64-bit integers.", _signed(64)),
    ("signed-32", "Holds dimensions in signed 32-bit integers.", _signed(32)),
    ("below-2p31", "Refuses dimensions from 2^31 on.", _at_most(2**31 - 1)),
    ("below-2p32", "Refuses dimensions from 2^32 on.", _at_most(2**32 - 1)),
    ("below-2p47", "Refuses dimensions from 2^47 on.", _at_most(2**47 - 1)),
    ("below-256", "Refuses dimensions above 255.", _at_most(255)),
)


def _variants() -> Iterator[Variant]:
    for name, about, convert in INTEGERS:
        yield reading(f"dimension-{name}", about.format("dimensions"), replace(READER, dimension=convert))
        # An offset of 2^64-1 lies behind every file, so that a saturating reader refuses too.
        if name == "saturating":
            continue
        yield reading(f"offset-{name}", about.format("offsets"), replace(READER, offset=convert))
    for name, about, convert in DIMENSIONS:
        yield reading(f"dimension-{name}", about, replace(READER, dimension=convert))


ANYWHERE = ("reversed", "range-size", "hole", "overlap", "past-end", "trailing")


def _any_sign(width: int, shape: Sequence[int]) -> int:
    return math.prod(shape[:50]) * width // 8


VARIANTS = (
    *_variants(),
    reading(
        "offset-negative-unchecked",
        "Takes negative offsets and compares them with nothing.",
        replace(READER, offset=_negative).without(*ANYWHERE),
    ),
    reading(
        "offset-modulo-2p64-unchecked",
        "Wraps offsets at 64 bits and compares them with nothing.",
        replace(READER, offset=_modulo(64, signed=True)).without(*ANYWHERE),
    ),
    reading(
        "dimension-negative-unsized",
        "Takes negative dimensions and compares no sizes.",
        replace(READER, dimension=_negative, size=_any_sign).without("range-size"),
    ),
)
