"""Shape: dimensions that overflow beside a zero, over bytes that an empty tensor cannot have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import rejects

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@rejects(
    "SHP-04",
    "SHP-06",
    "OFF-05",
    codes=("SHP_OVERFLOW", "OFF_SIZE_MISMATCH"),
    importance="high",
    over={"one-byte": 1, "eight-bytes": 8},
)
def zero_and_overflow_over_data(f: FileBuilder, value: int) -> None:
    """A zero dimension before others that overflow, with a range that is not empty ($slug).

    A reader may take the tensor for empty or refuse the overflow. Either way it cannot hold data.
    """
    f.tensor("w", "U8", [0, 2**32, 2**33], data=bytes(range(1, value + 1)))
