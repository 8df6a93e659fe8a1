"""Simpler values: what all kinds of plan have in common when they are made smaller."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from .question import Plan


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
