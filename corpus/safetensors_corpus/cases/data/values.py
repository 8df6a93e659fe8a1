"""Data: single values at the edges of their dtype, and BOOL bytes by place."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject
from ...author.parts import rare

if TYPE_CHECKING:
    from ...author.file import FileBuilder

FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""dtype in lower case -> bits of exponent and of fraction."""


def _float(f: FileBuilder, slug_parts: tuple[int, int], values: list[tuple[int, int, int]]) -> None:
    """Add a float tensor from fields of sign, exponent and fraction."""
    exponent_bits, fraction_bits = slug_parts
    dtype = next(name for name, parts in FLOATS.items() if parts == slug_parts).upper()
    size = (1 + exponent_bits + fraction_bits) // 8
    words = [(s << exponent_bits | e) << fraction_bits | m for s, e, m in values]
    f.tensor("w", dtype, [len(values)], b"".join(w.to_bytes(size, "little") for w in words))


@accepts("DAT-04", importance="high", over=FLOATS)
def nan_with_each_bit(f: FileBuilder, value: tuple[int, int]) -> None:
    """Not-a-number values with every single bit of the fraction, in both signs: $slug.

    A NaN made quiet, or replaced by the one of the processor, loses its bit.
    """
    ones = (1 << value[0]) - 1
    _float(f, value, [(sign, ones, 1 << bit) for sign in (0, 1) for bit in range(value[1])])


@accepts("DAT-04", over=FLOATS)
def largest_and_smallest(f: FileBuilder, value: tuple[int, int]) -> None:
    """The largest finite, the smallest normal and the values next to one, in both signs: $slug.

    A detour through a narrower type turns the largest into infinity and the smallest into zero.
    """
    exponent, fraction = value
    bias, full = (1 << (exponent - 1)) - 1, (1 << fraction) - 1
    rows = [((1 << exponent) - 2, full), (1, 0), (bias, 1), (bias - 1, full)]
    _float(f, value, [(sign, e, m) for sign in (0, 1) for e, m in rows])


@accepts("DAT-04", over={"f16": FLOATS["f16"], "bf16": FLOATS["bf16"]})
def every_exponent(f: FileBuilder, value: tuple[int, int]) -> None:
    """One value of each exponent, the reserved ones included, in both signs: $slug."""
    _float(f, value, [(sign, e, 1) for sign in (0, 1) for e in range(1 << value[0])])


@accepts("DAT-06", "DAT-04")
def bytes_in_order(f: FileBuilder) -> None:
    """All 256 byte values in order, as U8."""
    f.tensor("w", "U8", [256], bytes(range(256)))


INTEGERS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "i64": ("I64", "q", (2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))),
    "u64": ("U64", "Q", (2**53 + 1, 2**63, 2**64 - 1, 2**64 - 2**10 - 1)),
    "u32": ("U32", "I", (2**31, 2**24 + 1, 2**32 - 1, 2**31 - 1)),
}


@accepts("DAT-06", "DAT-01", over=INTEGERS, ahead=rare(INTEGERS))
def integers_beyond_floats(f: FileBuilder, value: tuple[str, str, tuple[int, ...]]) -> None:
    """Integers that floats of the same width cannot hold: $slug."""
    dtype, code, numbers = value
    f.tensor("w", dtype, [4], struct.pack(f"<4{code}", *numbers))


@accepts(
    "DTY-08",
    "DAT-04",
    over={
        "signalling-nan": (0x7F800001, 0xFF800001),
        "nan-and-infinity": (0x7FC00000, 0xFF800000),
        "minus-zeros": (0x80000000, 0x80000000),
    },
)
def complex_parts_of(f: FileBuilder, value: tuple[int, int]) -> None:
    """Two complex numbers of rare parts, and the same parts exchanged: $slug.

    Multiplying by one, or building the number from its parts, changes some of them.
    """
    f.tensor("w", "C64", [2], struct.pack("<4I", *value, *value[::-1]))


@chooses(
    "bool-bytes",
    "DAT-05",
    options={"keep": ACCEPT, "normalise": ACCEPT, "reject": reject("UNCLASSIFIED")},
    importance="high",
    over={"first": 0, "middle": 1, "last": 2},
)
def odd_bool_in_tensor(f: FileBuilder, value: int) -> None:
    """The $slug of three BOOL tensors holds the bytes 2 and 254."""
    for index, name in enumerate("abc"):
        data = (b"\x01\x02\xfe\x00" if index == value else b"\x01\x00\x00\x01") + bytes(
            [index & 1, index >> 1]
        )
        f.tensor(name, "BOOL", [6], data, views={"normalise": bytes(min(b, 1) for b in data)})
