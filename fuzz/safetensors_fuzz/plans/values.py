"""Plans and their values, as they are drawn at random."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

Plan = dict[str, Any]
"""What is asked, in JSON. Each kind of question explains the keys of its own. A plan is never changed once it
is made, so that others may share its parts."""

RESERVED = "__metadata__"
LAST = "\u00a7"
"""Name of the tensor that is wrong in a broken file."""
LARGEST = 4096
"""Elements of one tensor of a file at most."""
PACKED = tuple(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8)
"""Dtypes whose elements share bytes."""
WHOLE = tuple(dtype for dtype, bits in DTYPE_BITS.items() if bits % 8 == 0)
COMMON = tuple(dtype for dtype in WHOLE if not dtype.startswith(("F8_", "BF16")))
"""Dtypes that NumPy has."""
BASIC = ("U8", "I64", "F16", "F32")
"""Dtypes that nobody lacks."""


class Dice(random.Random):
    """A source of chance that has drawn the dtypes to choose from.

    Most frameworks lack some dtypes, and a plan full of those says little about them.

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


def whole_bytes(shape: list[int], dtype: str, place: Callable[[], int] = lambda: -1) -> None:
    if prod(shape) * DTYPE_BITS.get(dtype, 8) % 8:
        if not shape:
            shape.append(1)
        shape[place()] *= elements_of_a_byte(dtype)


Twist = Callable[[Dice, Plan], None]
"""Makes a plan that is being drawn unusual, a choice or wrong in one way."""


def drawing(key: str, values: Sequence[Any]) -> Twist:
    def twist(rng: Dice, out: Plan) -> None:
        out[key] = copy.deepcopy(rng.choice(values))

    return twist


def setting(**values: Any) -> Twist:
    def twist(_: Dice, out: Plan) -> None:
        out |= copy.deepcopy(values)

    return twist
