"""Chance, with the dtypes of one plan.

Most frameworks lack some dtypes, and a plan full of those says little about them.
"""

from __future__ import annotations

import random

from safetensors_reference.rules.dtypes import DTYPE_BITS

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
