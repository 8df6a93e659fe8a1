"""Broken readers with a fault in shapes, in the size that they imply, or in integers in shapes and offsets.

Rules: SHP-01 to SHP-11 and OFF-02.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from ..correct.json import Grammar, Number, Pairs, refusing, refusing_result
from ..correct.reader import READER, SmallReader, plain_integer, whole_bytes
from ..variant import Panic, reading


def _reshaping(change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> SmallReader:
    return READER.changed(
        described=lambda right, tensor, data: right(tensor, data) | {"shape": list(change(tensor.shape))}
    )


RESHAPING: tuple[tuple[str, str, Callable[[tuple[int, ...]], tuple[int, ...]]], ...] = (
    ("squeezed", "Drops dimensions of one.", lambda shape: tuple(dim for dim in shape if dim != 1)),
    ("leading-one-dropped", "Drops a leading dimension of one.", lambda s: s[1:] if s[:1] == (1,) else s),
    ("flattened", "Returns flat shapes.", lambda shape: (math.prod(shape[:100]),)),
    ("reversed", "Reverses the order of the dimensions.", lambda shape: shape[::-1]),
    ("scalar-as-vector", "Returns scalars with one dimension.", lambda shape: shape or (1,)),
    ("empty-as-nothing", "Returns the same shape for all empty tensors.", lambda s: (0,) if 0 in s else s),
    ("four-dimensions", "Keeps the first four dimensions.", lambda shape: shape[:4]),
    ("sixteen-dimensions", "Keeps the first sixteen dimensions.", lambda shape: shape[:16]),
)


def _wrap_number(value: object) -> object:
    return [value] if isinstance(value, Number) or (type(value) is str and value.isdigit()) else value


def _nothing(value: object) -> object:
    return [] if value is None or isinstance(value, Pairs) or value is True or value is False else value


def _only_numbers(value: object) -> object:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, Number)]
    return value if type(value) is not bool and value is not None else []


def _zero_for_others(value: object) -> object:
    if isinstance(value, list):
        return [item if isinstance(item, Number) else Number("0") for item in value]
    return value


def _of_shape(change: Callable[[object], object]) -> SmallReader:
    return READER.changed(shape=lambda right, value: right(change(value)))


SHAPES: tuple[tuple[str, str, Callable[[object], object]], ...] = (
    ("from-text", "Parses a string that contains a shape.",
     lambda value: Grammar().value(value, 0)[0] if type(value) is str and value[:1] == "[" else value),
    ("number", "Treats a number as a shape with one dimension.", _wrap_number),
    ("nothing", "Treats null, objects and booleans as the shape of a scalar.", _nothing),
    ("members", "Uses the values of an object as dimensions.",
     lambda value: [item for _, item in value] if isinstance(value, Pairs) else value),
    ("zero-for-others", "Treats a dimension that is not a number as zero.", _zero_for_others),
    ("numbers-only", "Skips dimensions that are not numbers.", _only_numbers),
)  # fmt: skip


def _no_size(
    when: Callable[[Sequence[int]], bool], error: type[BaseException] = Refused
) -> Callable[[int, Sequence[int]], int]:
    return partial(refusing(lambda _width, shape: when(shape), error), whole_bytes)


def _rank(limit: int) -> SmallReader:
    return replace(READER, size=_no_size(lambda shape: len(shape) > limit))


def _wrapped_size(bits: int, what: str, signed: bool = False) -> Callable[[int, Sequence[int]], int]:
    limit: int = 2**bits

    def size(width: int, shape: Sequence[int]) -> int:
        count = 1
        for dim in shape:
            count = count * dim % limit if what == "elements" else count * dim % max(limit, 2**256)
        if signed:
            READER.demand("negative", count % limit < limit // 2)
        total = count * width
        if what == "bytes":
            return total // 8 % limit
        if what == "bits":
            total %= limit
        READER.demand("part-of-a-byte", total % 8 == 0)
        return total // 8

    return size


def _double_size(width: int, shape: Sequence[int]) -> int:
    return int(math.prod(map(float, shape)) * width / 8) if len(shape) < 100 else whole_bytes(width, shape)


def _overflow_crash(width: int, shape: Sequence[int]) -> int:
    try:
        return whole_bytes(width, shape)
    except Refused as err:
        if str(err) == "overflow":
            raise Panic("overflow") from err
        raise


def _empty_not_multiplied(width: int, shape: Sequence[int]) -> int:
    """Multiply one dimension at a time, and crash where an overflow check would divide by zero."""
    product = 1
    for dim in shape:
        if product * dim >= 2**64 and 0 in shape:
            raise Panic("division by zero")
        product *= dim
    return whole_bytes(width, shape)


SIZES: tuple[tuple[str, str, Callable[[int, Sequence[int]], int]], ...] = (
    *((f"{what}-wrap-at-2p{bits}", f"Counts {what} modulo 2^{bits}.", _wrapped_size(bits, what))
      for what in ("elements", "bytes", "bits")
        for bits in (32, 64)),
    ("elements-signed", "Counts elements in signed 64-bit integers.",
     _wrapped_size(64, "elements", signed=True)),
    ("elements-wrap-at-2p53", "Counts elements in 53-bit integers.", _wrapped_size(53, "elements")),
    ("in-doubles", "Computes sizes in doubles.", _double_size),
    ("sum", "Adds the dimensions instead of multiplying them.", lambda width, shape: sum(shape) * width // 8),
    ("scalar-empty", "Treats a scalar as an empty tensor.",
     lambda width, shape: whole_bytes(width, shape) if shape else 0),
    ("zero-as-one", "Treats a dimension of zero as one.",
     lambda width, shape: whole_bytes(width, [dim or 1 for dim in shape])),
    ("zero-in-front-only", "Recognises empty tensors only by their first dimension.",
     lambda width, shape: 0 if shape[:1] == (0,) else whole_bytes(width, [dim or 1 for dim in shape])),
    ("zero-refused", "Rejects dimensions of zero.", _no_size(lambda shape: 0 in shape)),
    ("scalar-refused", "Rejects scalars.", _no_size(lambda shape: len(shape) == 0)),
    ("overflow-crash", "Crashes when a product overflows.", _overflow_crash),
    ("overflow-beside-zero-crash", "Crashes on an overflow even if another dimension is zero.",
     _empty_not_multiplied),
    ("rank-33-crash", "Writes the dimensions into an array of 32 elements.",
     _no_size(lambda shape: len(shape) > 32, Panic)),
)  # fmt: skip


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


def _negative(value: object) -> int:
    return (
        -plain_integer(Number(value[1:]))
        if isinstance(value, Number) and value[:1] == "-"
        else plain_integer(value)
    )


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
    return partial(refusing_result(lambda found: found > limit), plain_integer)


def _first_digits(value: object) -> int:
    match = re.match("[0-9]{1,19}", _number(value))
    return int(match[0]) if match else plain_integer(value)


INTEGERS: tuple[tuple[str, str, Integer], ...] = (
    ("whole-floats", "Accepts {} written as floating-point numbers.", _whole_floats),
    ("fractions-cut", "Drops the fractions of {}.", _truncated),
    ("first-digits", "Reads only the digits at the beginning of {}.", _first_digits),
    ("minus-zero", "Accepts minus zero among {}.",
     lambda value: 0 if value == "-0" else plain_integer(value)),
    ("negative", "Accepts negative {}.", _negative),
    ("absolute", "Drops the sign of {}.", lambda value: abs(_negative(value))),
    ("digit-strings", "Accepts {} written as strings.",
     lambda value: plain_integer(Number(value)) if type(value) is str else plain_integer(value)),
    ("booleans", "Accepts booleans among {}.",
     lambda value: int(value) if isinstance(value, bool) else plain_integer(value)),
    ("null", "Treats null among {} as zero.", lambda value: 0 if value is None else plain_integer(value)),
    ("nested", "Unpacks arrays among {}.", _nested),
    ("modulo-2p64", "Wraps {} around at 64 bits.", _modulo(64)),
    ("modulo-2p64-signed", "Wraps {} around at 64 bits, including negative ones.", _modulo(64, signed=True)),
    ("modulo-2p32", "Wraps {} around at 32 bits.", _modulo(32)),
    ("saturating", "Clamps {} to the largest integer.", _saturating),
    ("crash", "Crashes on a number that it cannot convert in {}.", _crash),
)  # fmt: skip
DIMENSIONS: tuple[tuple[str, str, Integer], ...] = (
    ("doubles", "Stores dimensions as doubles.", _doubles),
    ("signed-64", "Stores dimensions in signed 64-bit integers.", _signed(64)),
    ("signed-32", "Stores dimensions in signed 32-bit integers.", _signed(32)),
    ("below-2p31", "Rejects dimensions of 2^31 and above.", _at_most(2**31 - 1)),
    ("below-2p32", "Rejects dimensions of 2^32 and above.", _at_most(2**32 - 1)),
    ("below-2p47", "Rejects dimensions of 2^47 and above.", _at_most(2**47 - 1)),
    ("below-256", "Rejects dimensions above 255.", _at_most(255)),
)


def _variants() -> Iterator[Planted]:
    for name, about, convert in INTEGERS:
        yield reading(f"dimension-{name}", about.format("dimensions"), replace(READER, dimension=convert))
        # An offset of 2^64-1 lies beyond every file, so a saturating reader also rejects the file.
        if name == "saturating":
            continue
        yield reading(f"offset-{name}", about.format("offsets"), replace(READER, offset=convert))
    for name, about, convert in DIMENSIONS:
        yield reading(f"dimension-{name}", about, replace(READER, dimension=convert))


ANYWHERE = ("reversed", "range-size", "hole", "overlap", "past-end", "trailing")


def _any_sign(width: int, shape: Sequence[int]) -> int:
    return math.prod(shape[:50]) * width // 8


VARIANTS: tuple[Planted, ...] = (
    *(reading(f"shape-{name}", about, _reshaping(change)) for name, about, change in RESHAPING),
    *(reading(f"shape-{name}", about, _of_shape(change)) for name, about, change in SHAPES),
    *(
        reading(f"shape-rank-{limit}", f"Rejects more than {limit} dimensions.", _rank(limit))
        for limit in (4, 7, 31)
    ),
    *(reading(f"size-{name}", about, replace(READER, size=size)) for name, about, size in SIZES),
    *_variants(),
    reading("offset-negative-unchecked", "Accepts negative offsets, and does not compare them with anything.",
            replace(READER, offset=_negative).without(*ANYWHERE)),
    reading("offset-modulo-2p64-unchecked",
            "Wraps offsets around at 64 bits, and does not compare them with anything.",
            replace(READER, offset=_modulo(64, signed=True)).without(*ANYWHERE)),
    reading("dimension-negative-unsized", "Accepts negative dimensions, and does not compare sizes.",
            replace(READER, dimension=_negative, size=_any_sign).without("range-size")),
)  # fmt: skip
