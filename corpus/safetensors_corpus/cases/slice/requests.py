"""Slice: requests that name no part of the tensor, and tensors that are not there."""

from __future__ import annotations

from typing import Any

from ...author.case import ACCEPT, chooses, reject, rejects
from ...author.slice import SliceBuilder, numbers

S = slice
OUT = ("API_SLICE_OUT_OF_RANGE", "API_SLICE_UNSUPPORTED")
NOT_OFFERED = ("API_SLICE_UNSUPPORTED", "API_SLICE_OUT_OF_RANGE")

OUTSIDE: dict[str, tuple[Any, ...]] = {
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


@rejects("API-09", "API-05", codes=OUT, importance="critical", over=OUTSIDE)
def integer_outside(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """An integer lies outside its dimension: $slug.

    NumPy refuses it, and there is no other meaning; the bytes there belong to another row or another tensor.
    """
    numbers(f)
    f.ask("t", *index)


@rejects("API-09", codes=OUT, importance="high", over={"0": (0,), "minus-1": (-1,), "0-behind-row": (1, 0)})
def integer_in_dimension_of_0(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """An integer as index of a dimension that has no elements: $slug."""
    f.tensor("before", "I16", [8])
    f.tensor("t", "I16", [3, 0] if len(index) == 2 else [0, 3])
    f.tensor("after", "I16", [8])
    f.ask("t", *index)


MANY: dict[str, tuple[Any, ...]] = {
    "integers": (1, 2, 0),
    "ranges": (S(None), S(None), S(None)),
    "behind-ellipsis": (..., 1, 2, 0),
    "empty-range": (1, 2, S(0, 0)),
}


@rejects("API-07", codes=OUT, importance="high", over=MANY)
def too_many(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """Three indices for two dimensions: $slug."""
    numbers(f)
    f.ask("t", *index)


@rejects("API-07", codes=OUT, over={"integer": (0,), "range": (S(None),), "empty-range": (S(0, 0),)})
def scalar_index(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """An index for a scalar, which has no dimension: $slug."""
    f.tensor("t", "I16", [])
    f.tensor("after", "I16", [8])
    f.ask("t", *index)


WRONG: dict[str, tuple[Any, ...]] = {
    "two-ellipses": (..., ...),
    "two-ellipses-around-integer": (..., 1, ...),
    "float": (1.0,),
    "float-with-fraction": (1.5,),
    "string": ("1",),
    "string-behind-range": (S(0, 2), "a"),
    "float-behind-integer": (1, 2.0),
}


@rejects("API-07", codes=NOT_OFFERED, over=WRONG)
def no_index(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """Something that is no index to any array library: $slug."""
    numbers(f)
    f.ask("t", *index)


ZERO: dict[str, tuple[Any, ...]] = {
    "rows": (S(0, 4, 0),),
    "of-open-range": (S(None, None, 0),),
    "of-inner-dimension": (1, S(0, 6, 0)),
    "of-empty-range": (S(0, 0, 0),),
}


@rejects("API-07", "API-09", codes=NOT_OFFERED, importance="high", over=ZERO)
def step_of_0(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A range with a step of 0, which would never arrive: $slug."""
    numbers(f)
    f.ask("t", *index)


UNKNOWN = {
    "metadata-key": "__metadata__",
    "other-case": "T",
    "prefix": "te",
    "longer": "tensor.weight",
    "empty": "",
    "with-space": "t ",
    "decomposed": "e\u0301",
}


@rejects("API-02", codes="API_NO_SUCH_TENSOR", importance="high", over=UNKNOWN)
def unknown_name(f: SliceBuilder, value: str) -> None:
    """No tensor of the file has the name that is asked for: $slug."""
    f.metadata({"t": "text"})
    for name in ("t", "tensor", "\u00e9"):
        f.tensor(name, "I16", [2, 2])
    f.ask(value, S(0, 1))


AXIS: dict[str, tuple[Any, ...]] = {"alone": (None,), "before-integer": (None, 2), "last": (1, S(2, 4), None)}


@chooses("slice-new-axis", options={"numpy": ACCEPT, "error": reject(*NOT_OFFERED)}, over=AXIS)
def null(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """Null as an index, which to NumPy adds a dimension: $slug."""
    numbers(f)
    f.ask("t", *index)


LISTS: dict[str, tuple[Any, ...]] = {
    "two-rows": ([0, 2],),
    "repeated-row": ([1, 1],),
    "backwards": ([3, 0],),
    "of-inner-dimension": (S(1, 3), [5, 0]),
    "of-both": ([0, 3], [5, 1]),
    "empty": ([],),
}


@chooses("slice-list", options={"numpy": ACCEPT, "error": reject(*NOT_OFFERED)}, over=LISTS)
def positions(f: SliceBuilder, index: tuple[Any, ...]) -> None:
    """A list of positions as index: $slug."""
    numbers(f)
    if index == ([],):
        f.gives([0, 6], b"")
    f.ask("t", *index)


@rejects(
    "API-07", "API-09", codes=OUT, importance="high", over={"size": [0, 4], "far": [2**40], "before": [-5]}
)
def list_outside(f: SliceBuilder, value: list[int]) -> None:
    """A list with a position outside the dimension: $slug."""
    numbers(f)
    f.ask("t", value)


@chooses(
    "slice-bool",
    options={"error": reject(*NOT_OFFERED), "integer": ACCEPT, "mask": ACCEPT},
    over={"true": True, "false": False},
)
def truth_value(f: SliceBuilder, value: bool) -> None:
    """The truth value $slug as index.

    Python takes it for a number, NumPy for a mask that adds a dimension.
    """
    numbers(f)
    whole = f.told("t").data
    f.gives([6], whole[12:24] if value else whole[:12], option="integer")
    f.ask("t", value)
