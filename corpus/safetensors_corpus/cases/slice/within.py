"""Slice: parts of a tensor that lie within its bounds."""

from __future__ import annotations

from typing import Any

from ...author.case import accepts
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
