"""Loading everything: one buffer for the whole file, tensors as parts of it."""

from __future__ import annotations

from typing import TypeVar

from .lazy import TensorFile

T = TypeVar("T")


def load_all(file: TensorFile[T]) -> dict[str, T]:
    """Return all tensors of an open file, in header order, over one buffer.

    Ranges do not overlap (OFF-06), so writing to one tensor changes no other (DAT-07). One tensor that is
    kept keeps the memory of all.
    """
    raw = file.data()
    make = file.framework.make
    return {info.name: make(info, raw[info.begin : info.end]) for info in file.header.tensors.values()}
