"""Slice: parts of a tensor within its bounds, and dtypes whose elements share bytes (API-08).

The tensors are at various positions in the file, have elements of every kind, and are next to other tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from safetensors_corpus.author.actions import SliceBuilder, ask_numbers, numbers
from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import pattern
from safetensors_corpus.author.parts import rare

S = slice
OUT = "API_SLICE_OUT_OF_RANGE API_SLICE_UNSUPPORTED"
NOT_OFFERED = "API_SLICE_UNSUPPORTED API_SLICE_OUT_OF_RANGE"
Indices = dict[str, tuple[Any, ...]]
"""Slug -> index."""


@accepts("API-05", importance="high")
def rows_in_the_middle(f: SliceBuilder) -> None:
    """The request selects rows 1 and 2 of four rows."""
    ask_numbers(f, S(1, 3))


@accepts("API-05", importance="high")
def whole_by_no_index(f: SliceBuilder) -> None:
    """The index is an empty tuple, which requests the whole tensor."""
    ask_numbers(f)


INTEGERS: Indices = {
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


@accepts("API-05", importance="high", bugs="FB-210", over=INTEGERS)
def integer(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The index contains one or more integers: $slug.

    An integer removes its dimension. A negative integer counts from the end.
    """
    ask_numbers(f, *index)


RANGES: Indices = {
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


@accepts("API-05", importance="high", over=RANGES, bugs="FB-114")
def span(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The index contains ranges within the bounds: $slug."""
    ask_numbers(f, *index)


SIZES: dict[str, tuple[list[int], tuple[Any, ...]]] = {
    "first-of-two": ([4, 6], (S(None), S(0, 4))),
    "first-of-three": ([2, 3, 5], (S(None), S(None), S(0, 2))),
}


@accepts("API-05", importance="high", over=SIZES, bugs="FB-114")
def stop_like_size(f: SliceBuilder, shape: list[int], index: tuple[Any, ...]) -> None:
    """The range of the last dimension stops at the size of another dimension: $slug.

    A reader that counts dimensions from the wrong side returns the whole dimension.
    """
    ask_numbers(f, *index, shape=shape)


EMPTY: Indices = {
    "at-the-start": (S(0, 0),),
    "in-the-middle": (S(2, 2),),
    "of-inner-dimension": (S(1, 3), S(4, 4)),
    "of-both": (S(1, 1), S(3, 3)),
    "beside-integer": (2, S(3, 3)),
}


@accepts("API-05", importance="high", over=EMPTY)
def empty_range(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A range that stops where it starts is empty: $slug."""
    ask_numbers(f, *index)


DOTS: Indices = {
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
    """An ellipsis represents all dimensions that the index does not mention: $slug."""
    ask_numbers(f, *index, shape=[2, 3, 5])


INNER: Indices = {
    "range": (S(None), S(1, 2)),
    "integer": (S(None), 2),
    "range-between-integers": (1, S(1, 3), 4),
    "range-between-ranges": (S(0, 1), S(1, 3), S(2, 4)),
    "integer-between-ranges": (S(0, 2), 1, S(1, 4)),
}


@accepts("API-05", importance="high", over=INNER, bugs="FB-114")
def middle_dimension(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request selects a part of the middle dimension of three: $slug.

    The slice consists of several pieces of the file.
    """
    ask_numbers(f, *index, shape=[2, 3, 5])


RANKS: dict[str, tuple[list[int], tuple[Any, ...]]] = {
    "1": ([9], (S(3, 7),)),
    "1-integer": ([9], (7,)),
    "4": ([2, 3, 2, 4], (1, S(1, 3), S(None), S(1, 3))),
    "5": ([2, 1, 3, 2, 2], (S(1, 2), S(None), 2, ..., 1)),
    "6": ([2, 3, 1, 2, 2, 3], (1, S(0, 2), 0, S(None), 1, S(1, 3))),
    "6-fewer-indices": ([2, 3, 1, 2, 2, 3], (1, S(1, 3))),
}


@accepts("API-05", over=RANKS)
def rank(f: SliceBuilder, shape: list[int], index: tuple[Any, ...]) -> None:
    """The request selects a slice of a tensor of this rank: $slug."""
    ask_numbers(f, *index, shape=shape)


@accepts("SHP-03 API-05", over={"no-index": (), "ellipsis": (...,)})
def scalar(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request selects a whole scalar, which has no dimensions: $slug."""
    ask_numbers(f, *index, shape=[], beside=2)


ONES: Indices = {
    "kept-by-range": (S(0, 1), S(1, 2), S(0, 1)),
    "taken-away-by-integer": (0, S(1, 3), 0),
    "kept-without-index": (S(None), 2),
}


@accepts("API-05", bugs="FB-114", over=ONES)
def dimension_of_1(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """Dimensions of length 1 stay unless an integer removes them: $slug."""
    ask_numbers(f, *index, shape=[1, 3, 1], beside=2)


@accepts("API-05", importance="high", over={"first": 0, "middle": 1, "last": 2})
def tensor(f: SliceBuilder, place: int) -> None:
    """The request selects a slice of the $slug of three tensors in a file."""
    f.tensors("abc", "I32", [3, 2])
    f.ask("abc"[place], S(1, 3), 1)


@accepts("HDR-17 API-05", importance="high")
def tensor_listed_out_of_order(f: SliceBuilder) -> None:
    """The order of the tensors in the header differs from the order of their bytes."""
    for name in "abc":
        f.tensor(name, "I32", [3, 2], at=0)
    f.ask("a", S(0, 2))


WIDTHS = ("U8", "F8_E4M3", "BF16", "F32", "I64", "C64")


@accepts("API-05", importance="high", over=WIDTHS, ahead=rare(WIDTHS))
def elements(f: SliceBuilder, dtype: str) -> None:
    """The request selects a slice across both dimensions of a tensor of dtype $value."""
    numbers(f, [4, 5], dtype=dtype, beside=3)
    f.ask("t", S(1, 4), S(2, 4))


@accepts("API-05")
def elements_bool(f: SliceBuilder) -> None:
    """The request selects a slice across both dimensions of a BOOL tensor."""
    f.tensor("before", "BOOL", [3], b"\1\1\1")
    f.tensor("t", "BOOL", [3, 4], bytes([0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0]))
    f.tensor("after", "BOOL", [3], b"\0\0\0")
    f.ask("t", S(1, 3), S(1, 4))


@accepts("OFF-11 API-05", importance="high")
def unaligned_tensor(f: SliceBuilder) -> None:
    """The tensor begins at an odd offset of the data buffer.

    A reader cannot use views of the mapped file here and must copy the elements.
    """
    f.tensor("before", "U8", [3])
    f.tensor("t", "F64", [3, 3])
    f.ask("t", S(1, 3), S(0, 2))


@accepts("OFF-11 API-05", importance="high", over=(1, 4))
def odd_header(f: SliceBuilder, value: int) -> None:
    """The data buffer begins $value bytes after a multiple of eight bytes."""
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


@accepts("SHP-04 API-05", over=ZERO)
def no_bytes(f: SliceBuilder, shape: list[int], index: tuple[Any, ...]) -> None:
    """An empty tensor is sliced along dimensions whose length is not 0: $slug."""
    ask_numbers(f, *index, shape=shape, beside=2)


@accepts("API-04 API-05", over=("F4", "F6_E2M3", "F8_E8M0", "F8_E4M3FNUZ"))
def beside(f: SliceBuilder, dtype: str) -> None:
    """The tensor next to the requested tensor has the dtype $value, which few frameworks support."""
    f.tensor("rare", dtype, [4])
    f.tensor("t", "F32", [3, 2])
    f.ask("t", S(1, 3))


@accepts("API-05 ENT-09", over={"dots": "../t", "slash": "a/b", "empty": "", "accent": "\u00e9"})
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
    """The file has a fault outside the requested tensor: $slug.

    A reader that checks only the requested tensor returns parts of an invalid file.
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
    rejects(_rule, _code, importance="high", over={_what: _what})(other_broken)


@dataclass(frozen=True)
class Part:
    """Slice of a packed tensor: ``gives`` is its shape, and ``pieces`` selects its bytes."""

    dtype: str
    shape: list[int]
    index: tuple[Any, ...]
    gives: Sequence[int] = ()
    pieces: tuple[slice, ...] = ()


def _ask(f: SliceBuilder, part: Part) -> None:
    f.tensor("before", "U8", [3])
    f.tensor("t", part.dtype, part.shape)
    f.tensor("after", "U8", [3])
    data = f.tensor_named("t").data
    f.expect(list(part.gives), b"".join(data[piece] for piece in part.pieces))
    f.ask("t", *part.index)


ROWS = {
    "f4": Part("F4", [4, 4], (S(1, 3),), [2, 4], (S(2, 6),)),
    "f4-one": Part("F4", [4, 4], (3,), [4], (S(6, 8),)),
    "f4-whole": Part("F4", [4, 4], (), [4, 4], (S(0, 8),)),
    "f4-ellipsis": Part("F4", [2, 3], (...,), [2, 3], (S(0, 3),)),
    "f4-planes": Part("F4", [3, 1, 2], (S(1, 3),), [2, 1, 2], (S(1, 3),)),
    "f4-middle-dimension": Part("F4", [2, 3, 2], (S(None), 1), [2, 2], (S(1, 2), S(4, 5))),
    "f4-two-of-half-a-byte": Part("F4", [6, 1], (S(2, 4),), [2, 1], (S(1, 2),)),
    "f4-two-of-three-halves": Part("F4", [4, 3], (S(2, 4),), [2, 3], (S(3, 6),)),
    "f4-empty": Part("F4", [4, 4], (S(2, 2),), [0, 4], ()),
    "f6-e2m3": Part("F6_E2M3", [3, 4], (S(1, 3),), [2, 4], (S(3, 9),)),
    "f6-e3m2-one": Part("F6_E3M2", [3, 4], (1,), [4], (S(3, 6),)),
    "f6-e2m3-four-of-one": Part("F6_E2M3", [8, 1], (S(4, 8),), [4, 1], (S(3, 6),)),
}


@accepts(
    "API-05 API-08",
    importance="high",
    issue="safetensors/safetensors#783",
    over=ROWS,
    bugs={slug: "FB-17" for slug in ROWS if slug.startswith("f4")},
)
def packed_rows(f: SliceBuilder, part: Part) -> None:
    """The request selects rows of a packed tensor that start and end on byte boundaries: $slug.

    The shape counts elements, so a reader that counts bytes cuts in the wrong place.
    """
    _ask(f, part)


WITHIN = {
    "f4": Part("F4", [8], (S(2, 6),), [4], (S(1, 3),)),
    "f4-of-each-row": Part("F4", [3, 4], (S(None), S(2, 4)), [3, 2], (S(1, 2), S(3, 4), S(5, 6))),
    "f4-of-one-row": Part("F4", [3, 4], (1, S(0, 2)), [2], (S(2, 3),)),
    "f6-e3m2": Part("F6_E3M2", [12], (S(4, 8),), [4], (S(3, 6),)),
}


@accepts("API-05 API-08", over=WITHIN)
def packed_in_row(f: SliceBuilder, part: Part) -> None:
    """The request selects part of the last dimension that starts and ends on byte boundaries: $slug."""
    _ask(f, part)


INSIDE = {
    "f4-first": Part("F4", [8], (0,)),
    "f4-second": Part("F4", [8], (1,)),
    "f4-last": Part("F4", [8], (-1,)),
    "f4-start": Part("F4", [8], (S(1, 8),)),
    "f4-stop": Part("F4", [8], (S(0, 3),)),
    "f4-both": Part("F4", [8], (S(1, 3),)),
    "f4-row-of-half-a-byte": Part("F4", [4, 1], (S(1, 3),)),
    "f4-row-of-three-halves": Part("F4", [4, 3], (S(0, 1),)),
    "f4-second-row-of-three-halves": Part("F4", [4, 3], (1,)),
    "f4-last-of-each-row": Part("F4", [3, 4], (S(None), 3)),
    "f4-two-of-each-odd-row": Part("F4", [4, 3], (S(None), S(0, 2))),
    "f4-middle-of-each-row": Part("F4", [2, 4], (S(None), S(1, 3))),
    "f6-e2m3-one": Part("F6_E2M3", [8], (4,)),
    "f6-e2m3-stop": Part("F6_E2M3", [8], (S(0, 3),)),
    "f6-e3m2-both": Part("F6_E3M2", [8], (S(2, 6),)),
}


@rejects("API-08", NOT_OFFERED, over=INSIDE)
def packed_inside_byte(f: SliceBuilder, part: Part) -> None:
    """The request selects a part of a packed tensor that starts or ends inside a byte: $slug."""
    _ask(f, part)


BEYOND = {
    "f4-rows": Part("F4", [4, 4], (S(2, 6),), [2, 4], (S(4, 8),)),
    "f4-in-row": Part("F4", [8], (S(4, 10),), [4], (S(2, 4),)),
}


@chooses("slice-packed", "API-06 API-09", codes=OUT, importance="high", over=BEYOND)
def packed_beyond(f: SliceBuilder, part: Part) -> None:
    """A range of a packed tensor extends beyond the dimension: $slug."""
    _ask(f, part)


@rejects("API-09", OUT)
def packed_integer_outside(f: SliceBuilder) -> None:
    """The request selects row 4 of a packed tensor that has only rows 0 to 3."""
    _ask(f, Part("F4", [4, 4], (4,)))


STEPPED = {
    "f4-rows": Part("F4", [4, 4], (S(0, 4, 2),), [2, 4], (S(0, 2), S(4, 6))),
    "f4-rows-of-one-byte": Part("F4", [5, 2], (S(1, 5, 3),), [2, 2], (S(1, 2), S(4, 5))),
}


@chooses("slice-packed", "API-05", codes=NOT_OFFERED, over=STEPPED)
def packed_step(f: SliceBuilder, part: Part) -> None:
    """The request selects every second or third row of a packed tensor whose rows share no bytes: $slug."""
    _ask(f, part)


@rejects("API-08", NOT_OFFERED)
def packed_step_inside_byte(f: SliceBuilder) -> None:
    """The request selects every second element of a packed tensor, where two elements share each byte."""
    _ask(f, Part("F4", [8], (S(0, 8, 2),)))


MIXED: dict[str, tuple[str, list[int], tuple[Any, ...], int]] = {
    # dtype, shape, index, and offset of the data buffer modulo eight
    "bf16-cube": ("BF16", [3, 2, 4], (-1, S(None, 1)), 2),
    "bf16-vector": ("BF16", [7], (S(None, 5),), 0),
    "c64-matrix": ("C64", [2, 3], (S(None, 1), -1), 5),
    "c64-vector": ("C64", [5], (S(1, 3),), 0),
}


@accepts(
    "API-05 HDR-17 OFF-11",
    importance="high",
    over=MIXED,
    ahead=rare({slug: value[0] for slug, value in MIXED.items()}),
)
def listed_first(f: SliceBuilder, dtype: str, shape: list[int], index: tuple[Any, ...], behind: int) -> None:
    """The header lists a tensor before the three-byte tensor that precedes it in the data: $slug.

    The index and the start of the data buffer are also ordinary. The case tests them in combination.
    """
    f.tensor("before", "U8", [3])
    f.tensor("t", dtype, shape, at=0)
    f.tensor("after", "F32", [2], at=0)
    f.padding = b""
    f.padding = b" " * (-int.from_bytes(f.render()[:8], "little") % 8 + behind)
    f.ask("t", *index)


@rejects("OFF-05", "OFF_SIZE_MISMATCH", importance="high")
def other_size_of_the_tensor_before(f: SliceBuilder) -> None:
    """The range of the tensor before the requested tensor is one byte longer than its shape requires."""
    f.tensor("before", "U8", [3], pattern("before", 4))
    f.tensor("t", "BF16", [2, 3])
    f.metadata({"format": "pt"})
    f.ask("t", 1, S(0, 2))
