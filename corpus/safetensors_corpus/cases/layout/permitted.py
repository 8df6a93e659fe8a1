"""Layout: what is permitted, any order in the header, any alignment, empty tensors anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts
from ...author.parts import rare

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@accepts("OFF-05", "DAT-06", smoke=True)
def two_dtypes(f: FileBuilder) -> None:
    """Two tensors of different dtypes, one right behind the other."""
    f.tensor("a", "F32", [2, 3])
    f.tensor("b", "I64", [4])


@accepts("HDR-17", over={"reversed": "cba", "rotated": "cab", "swapped": "bac"})
def header_order(f: FileBuilder, value: str) -> None:
    """Three names whose order in the header, $value, is not that of their ranges.

    A reader that adds up sizes instead of using the offsets mixes up the tensors.
    """
    for name in "abc":
        f.tensor(name, "F32", [2], at=sum(value.index(n) < value.index(name) for n in "abc" if n < name))


UNALIGNED: dict[str, tuple[int, str]] = {
    "f16-at-1": (1, "F16"),
    "f32-at-1": (1, "F32"),
    "i64-at-3": (3, "I64"),
    "f64-at-4": (4, "F64"),
    "c64-at-7": (7, "C64"),
}


@accepts(
    "OFF-11",
    importance="high",
    over=UNALIGNED,
    ahead=rare(UNALIGNED),
    bugs=("FB-35", "FB-75", "FB-109"),
)
def unaligned(f: FileBuilder, value: tuple[int, str]) -> None:
    """A tensor begins at an offset that does not suit its width: $slug.

    Reading through a pointer of the element's type is undefined in C and faults on some processors.
    """
    f.tensor("a", "U8", [value[0]])
    f.tensor("b", value[1], [3])


@accepts(
    "OFF-11",
    "FRM-08",
    importance="high",
    over={"f16": "F16", "f32": "F32", "f64": "F64"},
    bugs=("FB-70", "FB-75"),
)
def data_at_odd_position(f: FileBuilder, value: str) -> None:
    """The header has an odd length, so that $value data starts at an odd position of the file."""
    f.padding = b""
    f.tensor("w", value, [4])
    f.padding = b" " * (1 - len(f.render()) % 2)


@accepts("OFF-09", over={"first": 0, "middle": 1, "last": 3}, bugs=("FB-18", "FB-119"))
def empty_tensor(f: FileBuilder, value: int) -> None:
    """A tensor without bytes stands $slug among others, its range empty where it stands.

    Its begin is that of its neighbour, or the end of the file.
    """
    for index in range(4):
        if index == value:
            f.tensor("empty", "F32", [0])
        if index < 3:
            f.tensor("abc"[index], "F32", [2])


@accepts("OFF-09", over={"0": 0, "8": 8, "16": 16})
def empty_tensor_listed_last(f: FileBuilder, value: int) -> None:
    """The header lists a tensor without bytes last although its range is [$value, $value].

    Sorting by begin alone may put it behind the neighbour that begins there, which looks like overlap.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2])
    f.tensor("empty", "F32", [0], begin=value, end=value)


@accepts("OFF-09", "SHP-04", "OFF-10")
def empty_tensors_at_every_boundary(f: FileBuilder) -> None:
    """Pairs of tensors without bytes stand before, between and behind two others."""
    for index in range(3):
        f.tensor(f"y{index}", "F32", [0])
        f.tensor(f"x{index}", "U8", [0])
        if index < 2:
            f.tensor("ab"[index], "F32", [2])
