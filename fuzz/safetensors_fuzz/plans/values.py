"""Plans and their random values."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

Plan = dict[str, Any]
"""A question as a JSON value. Each kind of plan documents its keys. Finished plans may share parts."""

RESERVED = "__metadata__"
FAULTY_NAME = "\u00a7"
LARGEST = 4096
PACKED = tuple(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8)
WHOLE = tuple(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8 == 0)
COMMON = tuple(dtype for dtype in WHOLE if not dtype.startswith(("F8_", "BF16")))
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
    bits = DTYPE_BITS.get(dtype, 8)
    return next(count for count in (1, 2, 4) if count * bits % 8 == 0)


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
