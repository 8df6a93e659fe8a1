"""Plans, their random values, and simpler values."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from math import gcd, prod
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

Plan = dict[str, Any]
"""A question as a JSON value. Each kind of plan documents its keys. Finished plans may share parts."""

RESERVED = "__metadata__"
FAULTY_NAME = "\u00a7"
PACKED = tuple(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8)
COMMON = tuple(d for d in DTYPE_BITS if d not in PACKED and not d.startswith(("F8_", "BF16")))
"""Dtypes that NumPy supports."""
BASIC = ("U8", "I64", "F16", "F32")
"""Dtypes that every reader supports."""


class Dice(random.Random):
    """A random generator with a subset of the dtypes, because most frameworks do not support all of them."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng.getrandbits(64))
        roll = self.random()
        self.dtypes = BASIC if roll < 0.25 else COMMON if roll < 0.6 else (*DTYPE_BITS, *PACKED)

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(dtype for dtype in self.dtypes if dtype not in PACKED and dtype != "BOOL")


def elements_of_a_byte(dtype: str) -> int:
    """Return the smallest number of elements that fill whole bytes."""
    return 8 // gcd(8, DTYPE_BITS.get(dtype, 8))


def whole_bytes(shape: list[int], dtype: str, place: Callable[[], int] = lambda: -1) -> None:
    if prod(shape) * DTYPE_BITS.get(dtype, 8) % 8:
        if not shape:
            shape.append(1)
        shape[place()] *= elements_of_a_byte(dtype)


Twist = Callable[[Dice, Plan], None]
"""Changes one aspect of a plan under construction."""


def drawing(key: str, values: Sequence[Any]) -> Twist:
    return lambda rng, out: out.update({key: copy.deepcopy(rng.choice(values))})


def setting(**values: Any) -> Twist:
    return lambda _, out: out.update(copy.deepcopy(values))


def changed(plan: Plan, key: str, at: int, *items: Any) -> Plan:
    """Return the plan with these items in place of one item of a list."""
    return {**plan, key: [*plan[key][:at], *items, *plan[key][at + 1 :]]}


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


def dtypes(dtype: str) -> tuple[str, ...]:
    """Return dtypes that are more common than this dtype. Returns an empty tuple for an unknown dtype."""
    return {"U8": (), "F32": ("U8",)}.get(dtype, ("U8", "F32")) if dtype in DTYPE_BITS else ()


def simpler(value: Any, plain: Plan, kept: Collection[str]) -> Iterator[Any]:
    """Yield simpler JSON values, starting with the most drastic simplification.

    ``plain`` maps keys to their plainest values. Values of keys in ``kept`` are not simplified in other ways.
    """
    if isinstance(value, dict):
        yield from ({**value, key: plain[key]} for key in plain if key in value)
        for key, part in value.items():
            if key not in kept:
                parts = dtypes(part) if key == "dtype" else simpler(part, plain, kept)
                yield from ({**value, key: other} for other in parts)
    elif isinstance(value, list):
        yield from fewer(value)
        for at, part in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in simpler(part, plain, kept))
    elif isinstance(value, str):
        yield from texts(value)
    elif type(value) is int:
        yield from numbers(value)
