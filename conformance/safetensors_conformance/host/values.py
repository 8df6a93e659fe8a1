"""Values that a library hands out, as an answer can carry them: nothing is corrected, all is bounded.

Standard library only, as the host is. Whatever else goes wrong here, such as an object that raises while it
is looked at, is left to the caller: it is a mistake of the adapter, never a refusal by the library.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from .library import AdapterError, shown

MAX_VALUES = 1 << 22
"""Most dimensions of a shape, and values in metadata, that are looked at; no corpus file comes near."""
MAX_LEVELS = 20
"""Levels of a nest that are told; what lies deeper becomes a word."""
MAX_BITS = 14_000
"""Bits of an integer that JSON parsers read back; Python's reads up to 4,300 digits."""


def dimensions(shape: Any) -> Any:
    """Return a shape as JSON can carry it; one that is no sequence stays what it is."""
    if isinstance(shape, (str, bytes, bytearray, Mapping)) or not hasattr(type(shape), "__iter__"):
        return plain(shape)
    left = [MAX_VALUES]
    return [_plain(size, 0, left) for size in _bounded(shape)]


def plain(value: Any) -> Any:
    """Return a dtype, dimension or metadata value as JSON can carry it; odd values stay what they are.

    Raises AdapterError for what is no value.
    """
    return _plain(value, 0, [MAX_VALUES])


def _bounded(iterable: Iterable[Any]) -> Iterator[Any]:
    """Yield values. Raises AdapterError where there seems to be no end of them."""
    iterator = iter(iterable)
    yield from islice(iterator, MAX_VALUES)
    for _ in iterator:
        raise AdapterError(f"there are more than {MAX_VALUES:,} values")


def _plain(value: Any, level: int, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise AdapterError(f"there are more than {MAX_VALUES:,} values")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return _float(float.__float__(value))
    if isinstance(value, (list, tuple)):
        return [_plain(v, level + 1, left) for v in value] if level < MAX_LEVELS else "(a list)"
    if isinstance(value, Mapping):
        return _map(value, level, left) if level < MAX_LEVELS else "(a map)"
    if isinstance(value, (bytes, bytearray)):
        return repr(value)
    return _number(value)


def _map(value: Mapping[Any, Any], level: int, left: list[int]) -> dict[str, Any]:
    """Return a map. Raises AdapterError when keys that differ would become one."""
    out: dict[str, Any] = {}
    for key, item in value.items():
        text = str.__str__(key) if isinstance(key, str) else str(key)
        if text in out:
            raise AdapterError(f"different keys of a map are spelled alike: {shown(text)}")
        out[text] = _plain(item, level + 1, left)
    return out


def _number(value: Any) -> Any:
    """Return an integer, or the text of another number. Raises AdapterError for what is none."""
    try:
        whole = operator.index(value)
    except TypeError as err:
        if isinstance(value, numbers.Number):
            return str(value)
        raise AdapterError(f"{type(value).__name__} is no value that can be told: {shown(value)}") from err
    if whole.bit_length() > MAX_BITS:
        return f"{hex(whole)[:40]}... ({whole.bit_length():,} bits)"
    return whole


def _float(value: float) -> float | str:
    """Return a float, as a text where JSON has no number for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
