"""Shapes: what is permitted, scalars, empty tensors, many dimensions and large ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject
from ...author.parts import rare

if TYPE_CHECKING:
    from ...author.case import Accept, Reject
    from ...author.file import FileBuilder

MAX = 2**64 - 1


SCALARS = {"u8": "U8", "f16": "F16", "f32": "F32", "c64": "C64"}


@accepts("SHP-03", over=SCALARS, ahead=rare(SCALARS))
def scalar(f: FileBuilder, value: str) -> None:
    """A scalar of $value: no dimension, one element."""
    f.tensor("w", value, [])


@accepts(
    "SHP-04",
    over={"0": [0], "0x5": [0, 5], "5x0": [5, 0], "5x0x3": [5, 0, 3], "0x0": [0, 0], "1x0": [1, 0]},
    bugs=("FB-18", "FB-119"),
)
def zero_dimension(f: FileBuilder, value: list[int]) -> None:
    """A tensor of shape $value has no bytes and keeps its shape."""
    f.tensor("w", "F32", value)


@accepts("SHP-11")
def six_elements_in_many_shapes(f: FileBuilder) -> None:
    """Six elements as [6], [1, 6], [6, 1], [2, 3], [3, 2] and [1, 2, 1, 3, 1].

    The number and order of dimensions belongs to the tensor, ones included.
    """
    for index, shape in enumerate(([6], [1, 6], [6, 1], [2, 3], [3, 2], [1, 2, 1, 3, 1])):
        f.tensor(f"t{index}", "I16", shape)


@accepts("SHP-11")
def eight_dimensions(f: FileBuilder) -> None:
    """A tensor of eight dimensions.

    Some readers hold shapes in arrays of four or five entries.
    """
    f.tensor("w", "U8", [2, 1, 3, 1, 2, 1, 1, 2])


@accepts("SHP-10", "SHP-11", importance="low")
def thirty_two_dimensions(f: FileBuilder) -> None:
    """A tensor of 32 dimensions, as many as NumPy held before version 2."""
    f.tensor("w", "F32", [1] * 31 + [2])


@chooses(
    "high-rank",
    "SHP-10",
    options={"accept": ACCEPT, "reject": reject("LIM_RANK")},
    importance="high",
    over={"33": 33, "64": 64, "65": 65, "256": 256, "1000": 1000, "30000": 30_000},
    bugs={"30000": ("FB-202",)},
)
def rank(f: FileBuilder, value: int) -> None:
    """A tensor of $value dimensions, all of them 1 but the last.

    Copying the shape into an array of fixed size writes past its end.
    """
    f.tensor("w", "F32", [1] * (value - 1) + [2])


@accepts("SHP-08", "SHP-04", importance="low", over={"2p31": 2**31, "2p32": 2**32, "2p48-less-1": 2**48 - 1})
def empty_beside(f: FileBuilder, value: int) -> None:
    """A tensor of shape [0, $value] has no bytes."""
    f.tensor("w", "F32", [0, value])


LARGE = {
    "2p48-plus-1": 2**48 + 1,
    "2p53": 2**53,
    "2p53-plus-1": 2**53 + 1,
    "2p63-less-1": 2**63 - 1,
    "2p63": 2**63,
    "2p64-less-1": MAX,
}
LARGE_OPTIONS: dict[str, Accept | Reject] = {
    "accept": ACCEPT,
    "reject": reject("SHP_OVERFLOW", "ENT_BAD_INTEGER"),
}


@chooses(
    "large-dimension", "SHP-11", "SHP-04", options=LARGE_OPTIONS, over=LARGE, bugs={"2p53-plus-1": ("FB-67",)}
)
def large_behind_zero(f: FileBuilder, value: int) -> None:
    """A tensor of shape [0, $value] is empty and has one very large dimension.

    Readers that hold numbers as doubles or as signed integers report another dimension.
    """
    f.tensor("w", "U8", [0, value])


@chooses(
    "large-dimension", "SHP-11", "SHP-04", options=LARGE_OPTIONS, over={"2p53-plus-1": 2**53 + 1, "max": MAX}
)
def large_before_zero(f: FileBuilder, value: int) -> None:
    """A tensor of shape [$value, 0] is empty and has one very large dimension."""
    f.tensor("w", "U8", [value, 0])
