"""Values of plans: dtypes drawn at random, and what is simpler than a value when a plan is made smaller.

Most frameworks lack some dtypes, and a plan full of those says little about them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .question import Plan

PACKED = tuple(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8)
"""Dtypes whose elements share bytes."""
WHOLE = tuple(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8 == 0)
COMMON = tuple(dtype for dtype in WHOLE if not dtype.startswith(("F8_", "BF16")))
"""Dtypes that NumPy has."""
BASIC = ("U8", "I64", "F16", "F32")
"""Dtypes that nobody lacks."""


class Dice(random.Random):
    """A source of chance that has drawn the dtypes to choose from.

    Attributes:
        dtypes: those of the format, the packed ones twice as often, or the common or the basic ones alone.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng.getrandbits(64))
        roll = self.random()
        self.dtypes = BASIC if roll < 0.25 else COMMON if roll < 0.6 else (*DTYPE_BITS, *PACKED)

    @property
    def whole(self) -> tuple[str, ...]:
        """Those dtypes whose elements have places of their own, truth values left out."""
        return tuple(dtype for dtype in self.dtypes if dtype not in PACKED and dtype != "BOOL")


def elements_of_a_byte(dtype: str) -> int:
    """Return how many elements fill whole bytes at least."""
    bits = DTYPE_BITS.get(dtype, 8)
    return next(count for count in (1, 2, 4) if count * bits % 8 == 0)


def changed(plan: Plan, **values: Any) -> Plan:
    """Return a copy of a plan with other values."""
    return {**copy.deepcopy(plan), **values}


def fewer(items: list[Any], least: int = 0) -> Iterator[list[Any]]:
    """Yield the list with fewer items: none, each half, and each item left out."""
    if len(items) <= least:
        return
    yield items[:least]
    half = len(items) // 2
    if least <= half < len(items) and half:
        yield items[:half]
        yield items[half:]
    for at in range(len(items)):
        yield items[:at] + items[at + 1 :]


def each(items: list[Any], simpler: Callable[[Any], Iterator[Any]]) -> Iterator[list[Any]]:
    """Yield the list with one item made simpler."""
    for at, item in enumerate(items):
        for other in simpler(item):
            yield [*items[:at], other, *items[at + 1 :]]


def numbers(value: int) -> Iterator[int]:
    """Yield numbers nearer to 0."""
    seen = {value}
    for other in (0, 1, 2, -value if value < 0 else 0, value // 2 if value > 0 else -(-value // 2)):
        if other not in seen and abs(other) <= abs(value):
            seen.add(other)
            yield other
    nearer = value - (1 if value > 0 else -1)
    if 2 < abs(value) <= 64 and nearer not in seen:
        yield nearer


def shapes(shape: list[int]) -> Iterator[list[int]]:
    """Yield shapes with fewer and shorter dimensions."""
    yield from fewer(shape)
    yield from each(shape, numbers)


def texts(text: str) -> Iterator[str]:
    """Yield shorter and plainer texts."""
    if text not in ("t", "a"):
        yield "a"
    if len(text) > 1:
        half = len(text) // 2
        yield text[:half]
        yield text[half:]
    if 1 < len(text) <= 24:
        for at in range(len(text)):
            yield text[:at] + text[at + 1 :]


def dtypes(dtype: str, plain: tuple[str, ...] = ("U8", "F32")) -> Iterator[str]:
    """Yield dtypes that are more usual."""
    for other in plain:
        if other == dtype:
            return
        yield other


def rows(items: list[Plan], key: str, simpler: Callable[[Any], Iterator[Any]]) -> Iterator[list[Plan]]:
    """Yield a list of maps with the value of ``key`` made simpler in one of them."""
    for at, item in enumerate(items):
        for other in simpler(item[key]):
            yield [*items[:at], {**item, key: other}, *items[at + 1 :]]
