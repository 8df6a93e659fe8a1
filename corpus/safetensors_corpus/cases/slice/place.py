"""Slice: where in the file the tensor lies, what its elements are, and what lies beside it."""

from __future__ import annotations

from typing import Any

from ...author.case import accepts, rejects
from ...author.file import pattern
from ...author.parts import rare
from ...author.slice import SliceBuilder, numbers

S = slice


@accepts("API-05", importance="high", over={"first": 0, "middle": 1, "last": 2})
def tensor(f: SliceBuilder, place: int) -> None:
    """A slice of the $slug of three tensors of a file."""
    for name in "abc":
        f.tensor(name, "I32", [3, 2])
    f.ask("abc"[place], S(1, 3), 1)


@accepts("HDR-17", "API-05", importance="high")
def tensor_listed_out_of_order(f: SliceBuilder) -> None:
    """The header lists the tensors in another order than their bytes."""
    for name in "abc":
        f.tensor(name, "I32", [3, 2], at=0)
    f.ask("a", S(0, 2))


WIDTHS = {"u8": "U8", "f8-e4m3": "F8_E4M3", "bf16": "BF16", "f32": "F32", "i64": "I64", "c64": "C64"}


@accepts("API-05", importance="high", over=WIDTHS, ahead=rare(WIDTHS))
def elements(f: SliceBuilder, dtype: str) -> None:
    """A slice across both dimensions of a tensor of $value."""
    f.tensor("before", dtype, [3])
    f.tensor("t", dtype, [4, 5])
    f.tensor("after", dtype, [3])
    f.ask("t", S(1, 4), S(2, 4))


@accepts("API-05")
def elements_bool(f: SliceBuilder) -> None:
    """A slice across both dimensions of a tensor of BOOL."""
    f.tensor("before", "BOOL", [3], b"\1\1\1")
    f.tensor("t", "BOOL", [3, 4], bytes([0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0]))
    f.tensor("after", "BOOL", [3], b"\0\0\0")
    f.ask("t", S(1, 3), S(1, 4))


@accepts("OFF-11", "API-05", importance="high")
def unaligned_tensor(f: SliceBuilder) -> None:
    """The tensor begins at an odd offset of the data buffer.

    Views of the mapped file do not work here; the elements have to be copied.
    """
    f.tensor("before", "U8", [3])
    f.tensor("t", "F64", [3, 3])
    f.ask("t", S(1, 3), S(0, 2))


@accepts("OFF-11", "API-05", importance="high", over={"1": 1, "4": 4})
def odd_header(f: SliceBuilder, value: int) -> None:
    """The data buffer begins $value bytes behind a multiple of eight."""
    f.padding = b""
    numbers(f)
    f.padding = b" " * (-int.from_bytes(f.render()[:8], "little") % 8 + value)
    f.ask("t", 3, S(3, 6))


ZERO: dict[str, tuple[list[int], tuple[Any, ...]]] = {
    "0-first-no-index": ([0, 3], ()),
    "0-last-no-index": ([3, 0], ()),
    "0-last-rows": ([3, 0], (S(1, 3),)),
    "0-last-row": ([3, 0], (2,)),
}


@accepts("SHP-04", "API-05", over=ZERO)
def no_bytes(f: SliceBuilder, value: tuple[list[int], tuple[Any, ...]]) -> None:
    """A tensor without bytes, cut along dimensions that are not 0: $slug."""
    shape, index = value
    f.tensor("before", "I16", [2])
    f.tensor("t", "I16", shape)
    f.tensor("after", "I16", [2])
    f.ask("t", *index)


NEIGHBOURS = {"f4": "F4", "f6-e2m3": "F6_E2M3", "f8-e8m0": "F8_E8M0", "f8-e4m3fnuz": "F8_E4M3FNUZ"}


@accepts("API-04", "API-05", over=NEIGHBOURS)
def beside(f: SliceBuilder, dtype: str) -> None:
    """The tensor beside the one that is asked for has the dtype $value, which few frameworks know."""
    f.tensor("rare", dtype, [4])
    f.tensor("t", "F32", [3, 2])
    f.ask("t", S(1, 3))


@accepts("API-05", "ENT-09", over={"dots": "../t", "slash": "a/b", "empty": "", "accent": "\u00e9"})
def name(f: SliceBuilder, value: str) -> None:
    """The tensor has an unusual name: $slug."""
    f.tensor("t", "I16", [2, 3])
    f.tensor(value, "I16", [2, 3])
    f.ask(value, 1)


BROKEN = {
    "overlap": ("OFF-06", "OFF_OVERLAP"),
    "hole": ("OFF-07", "OFF_HOLE"),
    "end-cut-off": ("OFF-04", "OFF_OUT_OF_BOUNDS"),
    "other-size": ("OFF-05", "OFF_SIZE_MISMATCH"),
}


def other_broken(f: SliceBuilder, what: str) -> None:
    """A fault of the file lies outside the tensor that is asked for: $slug.

    A reader that checks only the tensor it is about to cut hands out parts of a file that is none.
    """
    f.tensor("t", "I32", [3, 2])
    if what == "hole":
        f.gap(4)
    back = 4 if what == "overlap" else 0
    data = pattern("other", 8 - back)
    size = 3 if what == "other-size" else 2
    f.tensor("other", "I32", [size], data, begin=f.position - back)
    f.cut = 4 if what == "end-cut-off" else 0
    f.ask("t", S(0, 2))


for _what, (_rule, _code) in BROKEN.items():
    rejects(_rule, codes=_code, importance="high", over={_what: _what})(other_broken)
