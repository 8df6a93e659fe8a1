"""Layout: ranges shorter than their shapes, as reported from real readers."""

from __future__ import annotations

from ...author.case import rejects
from ...author.file import FileBuilder, pattern


@rejects(
    "OFF-05",
    codes="OFF_SIZE_MISMATCH",
    importance="critical",
    bugs=("FB-58", "FB-130"),
    issue="https://github.com/antirez/ds4/pull/543",
)
def square_of_128_range_of_128_bytes(f: FileBuilder) -> None:
    """An F8_E4M3 tensor of 128 rows and 128 columns has bytes for one row.

    Converting to a wider dtype goes by the shape and takes the other rows from foreign memory.
    """
    f.tensor("w", "F8_E4M3", [128, 128], pattern("w", 128))


@rejects(
    "OFF-05",
    codes="OFF_SIZE_MISMATCH",
    importance="critical",
    bugs=("FB-89",),
    over={"f32-as-bytes": ("F32", [8, 8], 64), "i64-as-halves": ("I64", [8], 16)},
)
def quarter_of_shape(f: FileBuilder, value: tuple[str, list[int], int]) -> None:
    """Range and file hold a quarter of what the shape needs: $slug.

    Code that takes every element for one width finds the size right for another dtype.
    """
    dtype, shape, size = value
    f.tensor("w", dtype, shape, pattern("w", size))
