"""Slice: dtypes whose elements share bytes (API-08)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...author.case import ACCEPT, Accept, Reject, accepts, chooses, reject, rejects
from ...author.slice import SliceBuilder

S = slice
OUT = reject("API_SLICE_OUT_OF_RANGE", "API_SLICE_UNSUPPORTED")
NOT_OFFERED = reject("API_SLICE_UNSUPPORTED", "API_SLICE_OUT_OF_RANGE")
TORCH_F4 = "https://github.com/safetensors/safetensors/issues/783"


@dataclass(frozen=True)
class Part:
    """A packed tensor and a part of it: the shape it has, and which bytes of the tensor it takes."""

    dtype: str
    shape: list[int]
    index: tuple[Any, ...]
    gives: Sequence[int] = ()
    pieces: tuple[slice, ...] = ()


def _ask(f: SliceBuilder, part: Part) -> None:
    f.tensor("before", "U8", [3])
    f.tensor("t", part.dtype, part.shape)
    f.tensor("after", "U8", [3])
    data = f.told("t").data
    f.gives(list(part.gives), b"".join(data[piece] for piece in part.pieces))
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


F4_ROWS = {slug: ("FB-17",) for slug in ROWS if slug.startswith("f4")}


@accepts("API-05", "API-08", importance="high", issue=TORCH_F4, over=ROWS, bugs=F4_ROWS)
def packed_rows(f: SliceBuilder, part: Part) -> None:
    """Rows of a packed tensor that begin and end between bytes: $slug.

    The shape counts elements, so that a reader that counts bytes cuts in the wrong place.
    """
    _ask(f, part)


WITHIN = {
    "f4": Part("F4", [8], (S(2, 6),), [4], (S(1, 3),)),
    "f4-of-each-row": Part("F4", [3, 4], (S(None), S(2, 4)), [3, 2], (S(1, 2), S(3, 4), S(5, 6))),
    "f4-of-one-row": Part("F4", [3, 4], (1, S(0, 2)), [2], (S(2, 3),)),
    "f6-e3m2": Part("F6_E3M2", [12], (S(4, 8),), [4], (S(3, 6),)),
}


@accepts("API-05", "API-08", over=WITHIN)
def packed_in_row(f: SliceBuilder, part: Part) -> None:
    """A part of the last dimension that begins and ends between bytes: $slug."""
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


@rejects("API-08", codes=("API_SLICE_UNSUPPORTED", "API_SLICE_OUT_OF_RANGE"), importance="high", over=INSIDE)
def packed_inside_byte(f: SliceBuilder, part: Part) -> None:
    """A part of a packed tensor that begins or ends inside a byte: $slug."""
    _ask(f, part)


BEYOND = {
    "f4-rows": Part("F4", [4, 4], (S(2, 6),), [2, 4], (S(4, 8),)),
    "f4-in-row": Part("F4", [8], (S(4, 10),), [4], (S(2, 4),)),
}
FAR: dict[str, Accept | Reject] = {"numpy": ACCEPT, "error": OUT}


@chooses("slice-packed", "API-06", "API-09", options=FAR, importance="high", over=BEYOND)
def packed_beyond(f: SliceBuilder, part: Part) -> None:
    """A range of a packed tensor reaches beyond the dimension: $slug."""
    _ask(f, part)


@rejects("API-09", codes=("API_SLICE_OUT_OF_RANGE", "API_SLICE_UNSUPPORTED"), importance="high")
def packed_integer_outside(f: SliceBuilder) -> None:
    """Row 4 of a packed tensor of four rows."""
    _ask(f, Part("F4", [4, 4], (4,)))


STEPPED = {
    "f4-rows": Part("F4", [4, 4], (S(0, 4, 2),), [2, 4], (S(0, 2), S(4, 6))),
    "f4-rows-of-one-byte": Part("F4", [5, 2], (S(1, 5, 3),), [2, 2], (S(1, 2), S(4, 5))),
}
NUMPY: dict[str, Accept | Reject] = {"numpy": ACCEPT, "error": NOT_OFFERED}


@chooses("slice-packed", "API-05", options=NUMPY, over=STEPPED)
def packed_step(f: SliceBuilder, part: Part) -> None:
    """Every second or third row of a packed tensor, each in bytes of its own: $slug."""
    _ask(f, part)


@rejects("API-08", codes=("API_SLICE_UNSUPPORTED", "API_SLICE_OUT_OF_RANGE"), importance="high")
def packed_step_inside_byte(f: SliceBuilder) -> None:
    """Every second element of a packed tensor: each shares its byte with one that is not wanted."""
    _ask(f, Part("F4", [8], (S(0, 8, 2),)))
