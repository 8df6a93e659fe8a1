"""Shapes: what is permitted, scalars, empty tensors, large dimensions, and up to several hundred of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.parts import rare

if TYPE_CHECKING:
    from ...author.case import Accept, Reject
    from ...author.file import FileBuilder

MAX = 2**64 - 1
SCALARS = {"u8": "U8", "f16": "F16", "f32": "F32", "c64": "C64"}
ONES = ",".join(["1"] * 300)
SPACED = " ,\t".join(["1"] * 300)


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


def _many(f: FileBuilder, value: tuple[str, list[int]]) -> None:
    shape = [1] * 300 + value[1]
    size = 0 if 0 in shape else 2 if 2 in shape else 1
    f.tensor("w", "U8", shape, bytes(range(size)), fields={"shape": value[0]})


@chooses(
    "high-rank",
    "SHP-10",
    options={"accept": ACCEPT, "reject": reject("LIM_RANK")},
    over={
        "two": (f"[{ONES},2]", [2]),
        "two-between-spaces": (f"[\r\n{SPACED}\n,\t 2 ]", [2]),
        "zero": (f"[{ONES},0]", [0]),
        "one-to-nine": (f"[{ONES},0,1234567890,56789]", [0, 1234567890, 56789]),
    },
)
def many(f: FileBuilder, value: tuple[str, list[int]]) -> None:
    """A shape of 300 ones and then $slug."""
    _many(f, value)


@rejects(
    "SHP-01",
    codes=("SHP_BAD_TYPE", "ENT_BAD_INTEGER"),
    over={
        "text": f'[{ONES},"1"]',
        "null": f"[{ONES},null]",
        "true": f"[{ONES},true]",
        "array": f"[{ONES},[1]]",
        "object": f"[{ONES},{{}}]",
    },
)
@rejects(
    "SHP-01",
    codes="ENT_BAD_INTEGER",
    over={"minus-one": f"[{ONES},0,-1]", "half": f"[{ONES},0.5]"},
)
@rejects(
    "SHP-02",
    codes="ENT_BAD_INTEGER",
    over={
        "minus-zero": f"[{ONES},-0]",
        "one-point-zero": f"[{ONES},0,1.0]",
        "exponent": f"[{ONES},0,1e1]",
    },
)
@rejects(
    "SHP-07",
    codes=("ENT_BAD_INTEGER", "SHP_OVERFLOW"),
    over={"2p64": f"[{ONES},0,{2**64}]", "21-digits": f"[{ONES},0,1{'0' * 20}]"},
)
@rejects(
    "HDR-07",
    codes=("HDR_NOT_JSON", "ENT_BAD_INTEGER", "SHP_BAD_TYPE"),
    over={
        "leading-zero": f"[{ONES},0,01]",
        "two-zeros": f"[{ONES},00]",
        "no-comma": f"[{ONES},0 1]",
        "no-commas-at-all": f"[{SPACED.replace(',', ' ')} 0]",
        "two-commas": f"[{ONES},,0]",
        "comma-at-end": f"[{ONES},0,]",
        "comma-at-start": f"[,{ONES},0]",
        "colon": f"[{ONES}:0]",
        "letter-behind-digit": f"[{ONES},0,1a]",
        "form-feed": f"[{ONES},\f0]",
        "no-break-space": f"[{ONES},\u00a00]",
        "closed-by-brace": f"[{ONES},0}}",
        "wide-digit": f"[{ONES},\uff10]",
    },
)
def many_and_a_fault(f: FileBuilder, value: str) -> None:
    """A shape of 300 ones, and behind them what is no dimension: $slug."""
    f.tensor("w", "U8", [1] * 300 + [0], b"", fields={"shape": value})
