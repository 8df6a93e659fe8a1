"""The header as a value: what a valid file says about its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from .dtypes import DTYPE_BITS


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor entry.

    Attributes:
        name: the key of the entry, exactly as decoded (HDR-19).
        dtype: code of the element type, a key of ``DTYPE_BITS``.
        shape: dimensions in logical elements (DTY-10); ``()`` is a scalar.
        begin: first byte in the data buffer.
        end: one past the last byte in the data buffer.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Size of the tensor in bytes."""
        return self.end - self.begin

    @property
    def bits(self) -> int:
        """Width of one element in bits."""
        return DTYPE_BITS[self.dtype]


@dataclass(frozen=True, slots=True)
class Header:
    """A header without faults.

    Attributes:
        length: N, the number of header bytes, padding included (FRM-01).
        tensors: name -> entry, in header order.
        metadata: the metadata map, None when the file has none (MET-03).
        data_size: size of the data buffer in bytes.
    """

    length: int
    tensors: dict[str, TensorInfo]
    metadata: dict[str, str] | None
    data_size: int

    @property
    def data_start(self) -> int:
        """File position of the first data byte."""
        return 8 + self.length
