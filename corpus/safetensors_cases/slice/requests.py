"""Slice: requests that exceed the bounds, that are not an index, or that name a missing tensor.

Readers differ on bounds, negative indices and steps for good reasons: NumPy clips ranges to the tensor, and
the official library rejects them. A reader that returns wrong data, or does not answer, always fails.
"""

from __future__ import annotations

from typing import Any

from safetensors_corpus.author.actions import SliceBuilder, ask_numbers, numbers
from safetensors_corpus.author.case import chooses, rejects

from .within import NOT_OFFERED, OUT, Indices, S


@chooses(
    "slice-bounds",
    "API-09",
    codes=OUT,
    importance="high",
    issue="safetensors/safetensors#560",
    over={
        "stop-by-1": (S(0, 5),),
        "stop-far": (S(2, 100),),
        "stop-of-inner-dimension": (S(1, 3), S(4, 7)),
        "start-by-1": (S(5, None),),
        "both": (S(6, 9),),
        "both-of-inner-dimension": (1, S(8, 10)),
    },
    bugs="FB-11 FB-216",
)
def beyond(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A range extends beyond the dimension: $slug.

    The bytes past the end belong to the next row or to the next tensor.
    """
    ask_numbers(f, *index)


HUGE: dict[str, slice] = {
    "2p31": S(1, 2**31),
    "2p32-plus-3": S(1, 2**32 + 3),
    "2p63-less-1": S(1, 2**63 - 1),
    "2p63": S(1, 2**63),
    "2p64-less-1": S(1, 2**64 - 1),
    "2p64": S(1, 2**64),
    "2p64-plus-3": S(1, 2**64 + 3),
    "start-2p31": S(2**31, None),
    "start-2p32-plus-1": S(2**32 + 1, None),
    "start-2p63": S(2**63, None),
    "start-2p64-plus-1": S(2**64 + 1, None),
    "minus-2p63": S(-(2**63), 3),
}


@chooses("slice-huge-bounds", "API-06 API-09", codes=OUT, importance="high", over=HUGE)
def bound(f: SliceBuilder, value: slice) -> None:
    """A bound does not fit into a machine register: $slug.

    Truncated to its low bits or read as a negative number, the bound may be inside the tensor.
    """
    ask_numbers(f, value)


HUGE_REQUESTS: Indices = {
    "stop-of-inner-dimension": (S(1, 3), S(2, 2**64 + 5)),
    "stop-of-both": (S(1, 2**65), S(0, 2**65)),
    "stop-behind-ellipsis": (..., S(3, 10**30)),
    "step": (S(0, 4, 2**64),),
}


@chooses("foreign-errors", "API-06 API-09", codes=OUT, importance="high", over=HUGE_REQUESTS)
def number_beyond_64_bits(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A number in the request exceeds 64 bits, but its meaning is clear: $slug.

    A language that converts the number to a machine integer may raise its own error.
    """
    ask_numbers(f, *index)


AT_END: Indices = {
    "range": (S(4, 4),),
    "open-range": (S(4, None),),
    "of-inner-dimension": (S(1, 3), S(6, 6)),
    "of-last-tensor": (S(None), S(6, None)),
}


@chooses("slice-empty-at-end", "API-09", codes=OUT, importance="high", over=AT_END)
def from_size(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A range that starts at the end of the dimension is empty: $slug."""
    f.tensor("before", "I16", [8])
    f.tensor("t", "I16", [4, 6])
    if index[-1] != S(6, None):
        f.tensor("after", "I16", [8])
    f.ask("t", *index)


@chooses(
    "slice-reversed",
    "API-09",
    codes=OUT,
    importance="critical",
    issue="safetensors/safetensors#843",
    over={
        "rows": (S(3, 1),),
        "rows-to-0": (S(2, 0),),
        "of-inner-dimension": (S(1, 3), S(5, 2)),
        "of-both": (S(3, 1), S(5, 2)),
        "beside-integer": (S(3, 1), 1),
        "with-step-2": (S(3, 0, 2),),
        "by-1-with-step-2": (S(2, 1, 2),),
    },
    bugs="FB-13",
)
def stop_before_start(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The stop of a range is before its start: $slug.

    The difference between the two is negative, or huge as an unsigned number.
    """
    ask_numbers(f, *index)


FROM_END: Indices = {
    "start": (S(-2, None),),
    "stop": (S(None, -1),),
    "both": (S(-3, -1),),
    "start-of-inner-dimension": (S(1, 3), S(-4, 5)),
    "stop-of-inner-dimension": (S(None), S(1, -2)),
    "start-is-minus-size": (S(-4, 2),),
}


@chooses("slice-negative-bounds", codes=NOT_OFFERED, importance="high", over=FROM_END)
def bound_from_end(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A negative bound counts from the end: $slug."""
    ask_numbers(f, *index)


BEFORE: Indices = {
    "start": (S(-5, 2),),
    "start-far": (S(-100, None),),
    "stop": (S(None, -5),),
    "start-of-inner-dimension": (1, S(-8, 3)),
}


@chooses("slice-negative-beyond", "API-09", codes=OUT, importance="high", over=BEFORE)
def bound_before_first(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A negative bound is before the first element: $slug.

    The bytes before that element belong to the previous row or to the previous tensor.
    """
    ask_numbers(f, *index)


NOTHING: dict[str, tuple[list[int], tuple[Any, ...]]] = {
    "all": ([0, 3], (S(None),)),
    "range": ([0, 3], (S(0, 0),)),
    "ellipsis": ([0, 3], (...,)),
    "inner-all": ([3, 0], (S(0, 2), S(None))),
    "inner-behind-integer": ([3, 0], (1, S(None))),
    "integer-beside": ([0, 3], (S(None), 1)),
}


@chooses("slice-zero-dimension", "API-09", codes=OUT, over=NOTHING)
def dimension_of_0(f: SliceBuilder, shape: list[int], index: tuple[Any, ...]) -> None:
    """The request has a range over a dimension of length 0: $slug."""
    ask_numbers(f, *index, shape=shape)


STEPS: Indices = {
    "2": (S(0, 4, 2),),
    "3-with-rest": (S(0, 4, 3),),
    "larger-than-range": (S(1, 3, 7),),
    "2p62": (S(0, 4, 2**62),),
    "of-inner-dimension": (S(None), S(1, 6, 2)),
    "of-both": (S(0, 4, 3), S(0, 6, 4)),
    "behind-integer": (2, S(1, 5, 3)),
}


@chooses("slice-step", codes=NOT_OFFERED, importance="high", over=STEPS)
def step(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request has a range with a step: $slug."""
    ask_numbers(f, *index)


@chooses(
    "slice-step", codes=NOT_OFFERED, importance="high", issue="safetensors/safetensors#855", bugs="FB-14"
)
def step_in_empty_range(f: SliceBuilder) -> None:
    """The request has an empty range with a step of 2.

    The shape of the slice is empty, so its data must be empty too.
    """
    ask_numbers(f, S(0, 0, 2))


BACKWARDS: Indices = {
    "1": (S(None, None, -1),),
    "1-of-inner-dimension": (1, S(None, None, -1)),
    "2": (S(3, None, -2),),
    "1-to-stop": (S(3, 1, -1),),
    "1-with-start-before-stop": (S(1, 3, -1),),
}


@chooses("slice-negative-step", codes=NOT_OFFERED, over=BACKWARDS)
def step_back(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request has a range with a negative step: $slug."""
    ask_numbers(f, *index)


INTEGER_OUTSIDE = {
    "size": (4,),
    "minus-size-less-1": (-5,),
    "inner-size": (1, 6),
    "inner-minus-size-less-1": (1, -7),
    "inner-in-last-row": (3, 6),
    "inner-in-first-row": (0, -7),
    "behind-range": (S(1, 3), 6),
    "2p31": (2**31,),
    "2p32-plus-1": (2**32 + 1,),
    "2p63": (2**63,),
    "2p64": (2**64,),
    "2p64-less-1": (2**64 - 1,),
    "2p64-plus-1": (2**64 + 1,),
    "minus-2p63": (-(2**63),),
    "minus-2p64": (-(2**64),),
    "rows-times-size-wraps": (2**64 // 12 + 1,),
}


@rejects("API-09 API-05", OUT, importance="critical", over=INTEGER_OUTSIDE)
def integer_outside(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """An integer index is outside its dimension: $slug.

    NumPy rejects such an index, which has no other meaning. The bytes outside the dimension belong to another
    row or tensor.
    """
    ask_numbers(f, *index)


@rejects("API-09", OUT, over={"0": (0,), "minus-1": (-1,), "0-behind-row": (1, 0)})
def integer_in_dimension_of_0(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A dimension without elements is indexed with an integer: $slug."""
    ask_numbers(f, *index, shape=[3, 0] if len(index) == 2 else [0, 3])


MANY: Indices = {
    "integers": (1, 2, 0),
    "ranges": (S(None), S(None), S(None)),
    "behind-ellipsis": (..., 1, 2, 0),
    "empty-range": (1, 2, S(0, 0)),
}


@rejects("API-07", OUT, over=MANY)
def too_many(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request has three indices for two dimensions: $slug."""
    ask_numbers(f, *index)


@rejects(
    "API-07", OUT, importance="medium", over={"integer": (0,), "range": (S(None),), "empty-range": (S(0, 0),)}
)
def scalar_index(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request has an index for a scalar, which has no dimensions: $slug."""
    f.tensor("t", "I16", [])
    f.tensor("after", "I16", [8])
    f.ask("t", *index)


WRONG: Indices = {
    "two-ellipses": (..., ...),
    "two-ellipses-around-integer": (..., 1, ...),
    "float": (1.0,),
    "float-with-fraction": (1.5,),
    "string": ("1",),
    "string-behind-range": (S(0, 2), "a"),
    "float-behind-integer": (1, 2.0),
}


@rejects("API-07", NOT_OFFERED, importance="medium", over=WRONG)
def no_index(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request contains something that no array library accepts as an index: $slug."""
    ask_numbers(f, *index)


ZERO: Indices = {
    "rows": (S(0, 4, 0),),
    "of-open-range": (S(None, None, 0),),
    "of-inner-dimension": (1, S(0, 6, 0)),
    "of-empty-range": (S(0, 0, 0),),
}


@rejects("API-07 API-09", NOT_OFFERED, over=ZERO)
def step_of_0(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The request has a range with a step of 0, which would never end: $slug."""
    ask_numbers(f, *index)


UNKNOWN = {
    "metadata-key": "__metadata__",
    "other-case": "T",
    "prefix": "te",
    "longer": "tensor.weight",
    "empty": "",
    "with-space": "t ",
    "decomposed": "e\u0301",
}


@rejects("API-02", "API_NO_SUCH_TENSOR", importance="high", over=UNKNOWN)
def unknown_name(f: SliceBuilder, value: str) -> None:
    """The file has no tensor with the requested name: $slug."""
    f.metadata({"t": "text"})
    f.tensors(("t", "tensor", "\u00e9"), "I16", [2, 2])
    f.ask(value, S(0, 1))


AXIS: Indices = {"alone": (None,), "before-integer": (None, 2), "last": (1, S(2, 4), None)}


@chooses("slice-new-axis", codes=NOT_OFFERED, over=AXIS)
def null(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The index contains null, which adds a dimension in NumPy: $slug."""
    ask_numbers(f, *index)


LISTS: Indices = {
    "two-rows": ([0, 2],),
    "repeated-row": ([1, 1],),
    "backwards": ([3, 0],),
    "of-inner-dimension": (S(1, 3), [5, 0]),
    "of-both": ([0, 3], [5, 1]),
    "empty": ([],),
}


@chooses("slice-list", codes=NOT_OFFERED, over=LISTS)
def positions(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """The index contains a list of positions: $slug."""
    numbers(f)
    if index == ([],):
        f.expect([0, 6], b"")
    f.ask("t", *index)


@rejects("API-07 API-09", OUT, over={"size": [0, 4], "far": [2**40], "before": [-5]})
def list_outside(f: SliceBuilder, value: list[int]) -> None:
    """The index is a list with a position outside the dimension: $slug."""
    ask_numbers(f, value)


@chooses("slice-bool", codes=NOT_OFFERED, over=(True, False))
def truth_value(f: SliceBuilder, value: bool) -> None:
    """The index is the boolean $slug.

    Python treats a boolean as a number, and NumPy treats it as a mask that adds a dimension.
    """
    numbers(f)
    whole = f.tensor_named("t").data
    f.expect([6], whole[12:24] if value else whole[:12], option="integer")
    f.ask("t", value)


@chooses("slice-bool", codes=NOT_OFFERED)
def truth_value_after_a_range(f: SliceBuilder) -> None:
    """The first index is a range, and the second one is the boolean True."""
    numbers(f)
    whole = f.tensor_named("t").data
    f.expect([2], whole[14:16] + whole[26:28], option="integer")
    f.ask("t", slice(1, 3), True)


@rejects("API-02", "API_NO_SUCH_TENSOR", importance="high")
def unknown_name_like_the_only_one(f: SliceBuilder) -> None:
    """The requested name differs from the name of the only tensor in the capitalisation of one letter."""
    f.tensor("layers.0.Weight", "F32", [3])
    f.ask("layers.0.weight")


@rejects("API-07", NOT_OFFERED, importance="medium")
def no_index_two_ellipses_of_three_dimensions(f: SliceBuilder) -> None:
    """The index for three dimensions has an integer and two ellipses around a range."""
    ask_numbers(f, 0, ..., S(0, 1), ..., shape=[2, 3, 5])
