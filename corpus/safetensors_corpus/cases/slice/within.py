"""Slice: parts of a tensor that lie within its bounds.

The tensors lie at every place of the file, have elements of every kind, and have others beside them.
"""

from __future__ import annotations

from typing import Any

from ...author.case import accepts, rejects
from ...author.file import pattern
from ...author.parts import rare
from ...author.slice import SliceBuilder, numbers

S = slice


@accepts("API-05", importance="high")
def rows_in_the_middle(f: SliceBuilder) -> None:
    """Rows 1 and 2 of four."""
    numbers(f)
    f.ask("t", S(1, 3))


@accepts("API-05", importance="high")
def whole_by_no_index(f: SliceBuilder) -> None:
    """The empty tuple as index asks for the whole tensor."""
    numbers(f)
    f.ask("t")


INTEGERS: dict[str, tuple[Any, ...]] = {
    "first": (0,),
    "last": (3,),
    "minus-1": (-1,),
    "minus-size": (-4,),
    "both": (2, 4),
    "both-first": (0, 0),
    "both-negative": (-2, -5),
    "of-inner-dimension": (S(None), 4),
    "of-inner-dimension-negative": (S(None), -6),
    "before-range": (1, S(2, 5)),
    "behind-range": (S(1, 3), 2),
}


@accepts("API-05", importance="high", bugs=("FB-210",), over=INTEGERS)
def integer(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """Integers as index: $slug.

    An integer takes its dimension away; a negative one counts from the end.
    """
    numbers(f)
    f.ask("t", *index)


RANGES: dict[str, tuple[Any, ...]] = {
    "all": (S(None),),
    "first-row": (S(0, 1),),
    "last-row": (S(3, 4),),
    "from": (S(1, None),),
    "to": (S(None, 3),),
    "of-inner-dimension": (S(None), S(1, 4)),
    "of-inner-dimension-one": (S(None), S(5, 6)),
    "of-both": (S(1, 3), S(2, 5)),
    "of-both-corner": (S(3, 4), S(5, 6)),
    "with-step-1": (S(1, 3, 1), S(0, 6, 1)),
}


@accepts("API-05", importance="high", over=RANGES, bugs=("FB-114",))
def span(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """Ranges within the bounds: $slug."""
    numbers(f)
    f.ask("t", *index)


EMPTY: dict[str, tuple[Any, ...]] = {
    "at-the-start": (S(0, 0),),
    "in-the-middle": (S(2, 2),),
    "of-inner-dimension": (S(1, 3), S(4, 4)),
    "of-both": (S(1, 1), S(3, 3)),
    "beside-integer": (2, S(3, 3)),
}


@accepts("API-05", importance="high", over=EMPTY)
def empty_range(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A range that stops where it starts holds no elements: $slug."""
    numbers(f)
    f.ask("t", *index)


DOTS: dict[str, tuple[Any, ...]] = {
    "alone": (...,),
    "first": (..., 1),
    "in-the-middle": (1, ..., 2),
    "in-the-middle-for-nothing": (1, 2, ..., 3),
    "last": (0, ...),
    "last-behind-range": (S(0, 1), ...),
    "between-ranges": (S(0, 1), ..., S(1, 3)),
    "before-range": (..., S(2, 4)),
}


@accepts("API-05", over=DOTS)
def dots(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """An ellipsis stands for all dimensions that are not spoken of: $slug."""
    f.tensor("before", "I16", [8])
    f.tensor("t", "I16", [2, 3, 5])
    f.tensor("after", "I16", [8])
    f.ask("t", *index)


INNER: dict[str, tuple[Any, ...]] = {
    "range": (S(None), S(1, 2)),
    "integer": (S(None), 2),
    "range-between-integers": (1, S(1, 3), 4),
    "range-between-ranges": (S(0, 1), S(1, 3), S(2, 4)),
    "integer-between-ranges": (S(0, 2), 1, S(1, 4)),
}


@accepts("API-05", importance="high", over=INNER, bugs=("FB-114",))
def middle_dimension(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The middle one of three dimensions is cut: $slug.

    What is asked for lies in several pieces of the file.
    """
    f.tensor("before", "I16", [8])
    f.tensor("t", "I16", [2, 3, 5])
    f.tensor("after", "I16", [8])
    f.ask("t", *index)


RANKS: dict[str, tuple[list[int], tuple[Any, ...]]] = {
    "1": ([9], (S(3, 7),)),
    "1-integer": ([9], (7,)),
    "4": ([2, 3, 2, 4], (1, S(1, 3), S(None), S(1, 3))),
    "5": ([2, 1, 3, 2, 2], (S(1, 2), S(None), 2, ..., 1)),
    "6": ([2, 3, 1, 2, 2, 3], (1, S(0, 2), 0, S(None), 1, S(1, 3))),
    "6-fewer-indices": ([2, 3, 1, 2, 2, 3], (1, S(1, 3))),
}


@accepts("API-05", over=RANKS)
def rank(f: SliceBuilder, value: tuple[list[int], tuple[Any, ...]]) -> None:
    """A slice of a tensor with $slug dimensions."""
    shape, index = value
    f.tensor("before", "I16", [8])
    f.tensor("t", "I16", shape)
    f.tensor("after", "I16", [8])
    f.ask("t", *index)


SCALARS: dict[str, tuple[Any, ...]] = {"no-index": (), "ellipsis": (...,)}


@accepts("SHP-03", "API-05", over=SCALARS)
def scalar(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A scalar has no dimension that could be cut; $slug gives all of it."""
    f.tensor("before", "I16", [2])
    f.tensor("t", "I16", [])
    f.tensor("after", "I16", [2])
    f.ask("t", *index)


ONES: dict[str, tuple[Any, ...]] = {
    "kept-by-range": (S(0, 1), S(1, 2), S(0, 1)),
    "taken-away-by-integer": (0, S(1, 3), 0),
    "kept-without-index": (S(None), 2),
}


@accepts("API-05", bugs=("FB-114",), over=ONES)
def dimension_of_1(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """Dimensions of length 1 stay unless an integer takes them away: $slug."""
    f.tensor("before", "I16", [2])
    f.tensor("t", "I16", [1, 3, 1])
    f.tensor("after", "I16", [2])
    f.ask("t", *index)


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
