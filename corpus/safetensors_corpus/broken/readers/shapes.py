"""Broken readers: the form of a shape, shapes returned changed, and what size follows (SHP-01 to SHP-11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..correct.json import Grammar, Number, Pairs, Refused
from ..correct.reader import READER, SmallReader, whole_bytes
from ..variant import Panic, reading


@dataclass(frozen=True)
class Reshaping(SmallReader):
    """Changes shapes after they are checked."""

    reshape: Callable[[tuple[int, ...]], tuple[int, ...]] = tuple

    def content(self, file: bytes) -> dict[str, Any]:
        """Return the content with other shapes."""
        found = super().content(file)
        rows = [row | {"shape": list(self.reshape(tuple(row["shape"])))} for row in found["tensors"]]
        return found | {"tensors": rows}


RESHAPING: tuple[tuple[str, str, Callable[[tuple[int, ...]], tuple[int, ...]]], ...] = (
    ("squeezed", "Drops dimensions of one.", lambda shape: tuple(dim for dim in shape if dim != 1)),
    ("leading-one-dropped", "Drops a leading dimension of one.", lambda s: s[1:] if s[:1] == (1,) else s),
    ("flattened", "Returns flat shapes.", lambda shape: (math.prod(shape[:100]),)),
    ("reversed", "Turns the order of dimensions round.", lambda shape: shape[::-1]),
    ("scalar-as-vector", "Returns scalars with one dimension.", lambda shape: shape or (1,)),
    ("empty-as-nothing", "Returns all empty tensors with one shape.", lambda s: (0,) if 0 in s else s),
    ("four-dimensions", "Keeps the first four dimensions.", lambda shape: shape[:4]),
    ("sixteen-dimensions", "Keeps the first sixteen dimensions.", lambda shape: shape[:16]),
)


@dataclass(frozen=True)
class AnyShape(SmallReader):
    """Takes what is no array for a shape."""

    convert: Callable[[object], object] = lambda value: value

    def shape(self, value: object) -> tuple[int, ...]:
        return super().shape(self.convert(value))


def _from_text(value: object) -> object:
    return Grammar().value(value, 0)[0] if type(value) is str and value[:1] == "[" else value


def _wrap_number(value: object) -> object:
    return [value] if isinstance(value, Number) or (type(value) is str and value.isdigit()) else value


def _nothing(value: object) -> object:
    return [] if value is None or isinstance(value, Pairs) or value is True or value is False else value


def _members(value: object) -> object:
    return [item for _, item in value] if isinstance(value, Pairs) else value


def _only_numbers(value: object) -> object:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, Number)]
    return value if type(value) is not bool and value is not None else []


def _zero_for_others(value: object) -> object:
    if isinstance(value, list):
        return [item if isinstance(item, Number) else Number("0") for item in value]
    return value


SHAPES: tuple[tuple[str, str, Callable[[object], object]], ...] = (
    ("from-text", "Parses a shape inside a string.", _from_text),
    ("number", "Takes a number for a shape of one dimension.", _wrap_number),
    ("nothing", "Takes null, objects and booleans for the shape of a scalar.", _nothing),
    ("members", "Takes the values of an object for dimensions.", _members),
    ("zero-for-others", "Takes a dimension that is no number for zero.", _zero_for_others),
    ("numbers-only", "Passes over dimensions that are no numbers.", _only_numbers),
)


def _rank(limit: int) -> SmallReader:
    def checked(width: int, shape: Sequence[int]) -> int:
        READER.demand("rank", len(shape) <= limit)
        return whole_bytes(width, shape)

    return replace(READER, size=checked)


def _wrapped_size(bits: int, what: str, signed: bool = False) -> Callable[[int, Sequence[int]], int]:
    """Return a size computation that wraps at so many bits: of elements, bytes or bits."""
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


def _sum(width: int, shape: Sequence[int]) -> int:
    return sum(shape) * width // 8


def _scalar_empty(width: int, shape: Sequence[int]) -> int:
    return whole_bytes(width, shape) if shape else 0


def _zero_as_one(width: int, shape: Sequence[int]) -> int:
    return whole_bytes(width, [dim or 1 for dim in shape])


def _zero_first(width: int, shape: Sequence[int]) -> int:
    return 0 if shape[:1] == (0,) else whole_bytes(width, [dim or 1 for dim in shape])


def _no_zero(width: int, shape: Sequence[int]) -> int:
    READER.demand("zero-dimension", 0 not in shape)
    return whole_bytes(width, shape)


def _no_scalar(width: int, shape: Sequence[int]) -> int:
    READER.demand("scalar", len(shape) > 0)
    return whole_bytes(width, shape)


def _overflow_crash(width: int, shape: Sequence[int]) -> int:
    try:
        return whole_bytes(width, shape)
    except Refused as err:
        if str(err) == "overflow":
            raise Panic("overflow") from err
        raise


def _stack_dims(width: int, shape: Sequence[int]) -> int:
    if len(shape) > 32:
        raise Panic("array of 32 dimensions")
    return whole_bytes(width, shape)


def _empty_not_multiplied(width: int, shape: Sequence[int]) -> int:
    """Multiply dimension by dimension, and fail where the product of the rest is divided by zero."""
    product = 1
    for dim in shape:
        if product * dim >= 2**64 and 0 in shape:
            raise Panic("division by zero")
        product *= dim
    return whole_bytes(width, shape)


SIZES: tuple[tuple[str, str, Callable[[int, Sequence[int]], int]], ...] = (
    *((f"{what}-wrap-at-2p{bits}", f"Counts {what} in {bits} bits that wrap.", _wrapped_size(bits, what))
      for what in ("elements", "bytes", "bits")
        for bits in (32, 64)),
    ("elements-signed", "Counts elements in signed 64-bit integers.",
     _wrapped_size(64, "elements", signed=True)),
    ("elements-wrap-at-2p53", "Counts elements in integers of 53 bits.", _wrapped_size(53, "elements")),
    ("in-doubles", "Computes sizes in doubles.", _double_size),
    ("sum", "Adds up the dimensions.", _sum),
    ("scalar-empty", "Takes a scalar for an empty tensor.", _scalar_empty),
    ("zero-as-one", "Takes a dimension of zero for one.", _zero_as_one),
    ("zero-in-front-only", "Knows empty tensors by their first dimension.", _zero_first),
    ("zero-refused", "Refuses dimensions of zero.", _no_zero),
    ("scalar-refused", "Refuses scalars.", _no_scalar),
    ("overflow-crash", "Crashes when a product overflows.", _overflow_crash),
    ("overflow-beside-zero-crash", "Crashes on an overflow beside a zero.", _empty_not_multiplied),
    ("rank-33-crash", "Writes the dimensions into an array of 32.", _stack_dims),
)  # fmt: skip


VARIANTS = (
    *(reading(f"shape-{name}", about, Reshaping(reshape=change)) for name, about, change in RESHAPING),
    *(reading(f"shape-{name}", about, AnyShape(convert=change)) for name, about, change in SHAPES),
    *(
        reading(f"shape-rank-{limit}", f"Refuses more than {limit} dimensions.", _rank(limit))
        for limit in (4, 7, 31)
    ),
    *(reading(f"size-{name}", about, replace(READER, size=size)) for name, about, size in SIZES),
)
