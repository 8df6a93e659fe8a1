"""Sub-byte tensors: raw bytes with their logical shape, where an array library has no packed type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Raw = TypeVar("Raw")


@dataclass(frozen=True)
class PackedTensor(Generic[Raw]):
    """A tensor of F4 or F6 elements as it stands in the file.

    The order of elements inside the bytes is not defined by the format (DTY-11), so nothing is unpacked.

    Attributes:
        dtype: dtype code, ``F4``, ``F6_E2M3`` or ``F6_E3M2``.
        shape: logical dimensions in elements (DTY-10).
        raw: the bytes as a one-dimensional array of unsigned 8-bit integers.
    """

    dtype: str
    shape: tuple[int, ...]
    raw: Raw
