"""Broken readers: the product of a shape and the size that follows from it (SHP-03 to SHP-06)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..correct.json import Refused
from ..correct.reader import READER, whole_bytes
from ..variant import Panic, reading


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

VARIANTS = tuple(reading(f"size-{name}", about, replace(READER, size=size)) for name, about, size in SIZES)
