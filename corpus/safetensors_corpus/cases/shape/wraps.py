"""Shapes: sizes just below, at and above the powers of two at which integers end."""

from __future__ import annotations

from ...author.case import rejects
from ...author.file import FileBuilder, pattern
from ...author.parts import PLACES

WRAPPED = ("SHP_OVERFLOW", "OFF_SIZE_MISMATCH")


@rejects(
    "SHP-05",
    "OFF-05",
    codes=WRAPPED,
    importance="critical",
    over={
        "2p63-less-8": ("F64", [2**60 - 1]),
        "2p63": ("F32", [2**61]),
        "2p64-less-8": ("F64", [2**61 - 1]),
        "2p64-less-2": ("U16", [2**63 - 1]),
        "2p63-packed": ("F4", [2**32, 2**32]),
    },
)
def bytes_near(f: FileBuilder, value: tuple[str, list[int]]) -> None:
    """A tensor needs this number of bytes, and the file has eight: $slug.

    Read with a sign such a size is negative, and every comparison with it comes out wrong.
    """
    f.tensor("w", *value, pattern("w", 8))


@rejects(
    "OFF-05",
    "SHP-05",
    codes=WRAPPED[::-1],
    importance="critical",
    over={
        "2p63-u8": ("U8", [2**60]),
        "2p63-f4": ("F4", [2**61]),
        "three-quarters-of-2p64-f6": ("F6_E3M2", [2**60, 2]),
    },
)
def bits_near(f: FileBuilder, value: tuple[str, list[int]]) -> None:
    """A tensor needs about this number of bits, and the file has eight bytes: $slug."""
    f.tensor("w", *value, pattern("w", 8))


@rejects("SHP-05", codes=WRAPPED, importance="critical", over=PLACES)
def product_wraps_to_size_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has 2^64 + 2 elements over a range of two.

    Cut to 64 bits the product is just the size of the range, so no bound is passed.
    """
    for index, name in enumerate("abc"):
        f.tensor(name, "U8", [2**63 + 1, 2] if index == value else [2], pattern(name, 2))


@rejects(
    "SHP-05", codes=WRAPPED, importance="critical", over={"front": [2, 2**63 + 1], "back": [2**63 + 1, 2]}
)
def product_wraps_to_two_and_back(f: FileBuilder, value: list[int]) -> None:
    """A third dimension of 3 follows two whose product wraps to two: the large one at the $slug.

    A check of the last multiplication alone sees two times three.
    """
    f.tensor("w", "U8", [*value, 3], pattern("w", 6))


@rejects("SHP-05", codes=WRAPPED, importance="critical")
def product_wraps_twice(f: FileBuilder) -> None:
    """The product passes 2^64 twice on its way and ends at four.

    The wrapped product grows again after each wrap, so comparing neighbours does not show it.
    """
    f.tensor("w", "U8", [2**63 + 1, 2, 2**63 + 1, 2], pattern("w", 4))
