"""Simplification of values, and functions that apply it to the parts of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

Simpler = Callable[[Any], Iterator[Any]]
"""Yields simpler values, starting with the most drastic simplification."""


def ways(*simpler: Simpler) -> Simpler:
    return lambda value: (other for way in simpler for other in way(value))


def fixed(**values: Any) -> Simpler:
    return lambda item: iter([{**item, **values}])


def field(key: str, simpler: Simpler) -> Simpler:
    return lambda item: ({**item, key: other} for other in (simpler(item[key]) if key in item else ()))


def every(simpler: Simpler) -> Simpler:
    return lambda item: (other for key in item for other in field(key, simpler)(item))


def each(simpler: Simpler) -> Simpler:
    return lambda items: (
        [*items[:at], other, *items[at + 1 :]] for at, item in enumerate(items) for other in simpler(item)
    )


def rows(key: str, simpler: Simpler) -> Simpler:
    return each(field(key, simpler))


def only(kind: type, simpler: Simpler) -> Simpler:
    return lambda value: simpler(value) if isinstance(value, kind) else iter(())


def fewer(items: list[Any]) -> Iterator[list[Any]]:
    if not items:
        return
    yield []
    if half := len(items) // 2:
        yield items[:half]
        yield items[half:]
    for at in range(len(items)):
        yield items[:at] + items[at + 1 :]


def numbers(value: int) -> Iterator[int]:
    seen = {value}
    for other in (0, 1, 2, -value if value < 0 else 0, value // 2 if value > 0 else -(-value // 2)):
        if other not in seen and abs(other) <= abs(value):
            seen.add(other)
            yield other
    nearer = value - (1 if value > 0 else -1)
    if 2 < abs(value) <= 64 and nearer not in seen:
        yield nearer


shapes = ways(fewer, each(numbers))


def texts(text: str) -> Iterator[str]:
    if text not in ("t", "a"):
        yield "a"
    if len(text) > 1:
        half = len(text) // 2
        yield text[:half]
        yield text[half:]
    if 1 < len(text) <= 24:
        for at in range(len(text)):
            yield text[:at] + text[at + 1 :]


def dtypes(dtype: str) -> Iterator[str]:
    """Yield dtypes that are more common, or nothing for an unknown dtype."""
    usual = ("U8", "F32")
    yield from usual[: usual.index(dtype) if dtype in usual else None] if dtype in DTYPE_BITS else ()
