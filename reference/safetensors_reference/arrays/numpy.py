"""Creates NumPy arrays from a data buffer, maps dtype codes to NumPy types, and defines ``PackedTensor``.

If ml_dtypes is installed, it provides the types that NumPy lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Sized
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..header.model import TensorInfo, show_shape
from ..rules.dtypes import ARRAY_TYPES, DTYPE_BITS
from ..rules.errors import AccessError, UnsupportedDtypeError, reason
from ..text import quote

# This import registers the types with NumPy. It must not be deferred, because it would fail if the process
# had run out of file descriptors by then.
with suppress(ImportError):
    import ml_dtypes  # noqa: F401

Raw = TypeVar("Raw", bound=Sized)


@dataclass(frozen=True, eq=False)
class PackedTensor(Generic[Raw]):
    """A tensor of F4 or F6 elements, stored exactly as in the file.

    The format does not define the order of elements inside a byte (DTY-11), so the elements are not unpacked.
    Two packed tensors are equal if their dtypes, shapes and bytes are equal. Like arrays, they are not
    hashable.

    Attributes:
        dtype: dtype code, which is ``F4``, ``F6_E2M3`` or ``F6_E3M2``.
        shape: logical dimensions in elements (DTY-10).
        raw: the bytes as a one-dimensional array of unsigned 8-bit integers.
    """

    dtype: str
    shape: tuple[int, ...]
    raw: Raw

    def __repr__(self) -> str:
        return f"PackedTensor({self.dtype}, {show_shape(self.shape)}, {len(self.raw):,} bytes)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedTensor):
            return NotImplemented
        if (self.dtype, self.shape, len(self.raw)) != (other.dtype, other.shape, len(other.raw)):
            return False
        return bool((self.raw == other.raw).all())

    __hash__ = None  # type: ignore[assignment]


Array = npt.NDArray[Any]
NumpyTensor = Array | PackedTensor[npt.NDArray[np.uint8]]
LoadedArray: TypeAlias = "Array | Any"
"""A ``NumpyTensor``. Few files contain F4 or F6, so the type includes ``Any`` to let callers use arrays
without a cast.
"""
MAX_RANK = 64
"""Maximum number of dimensions of a NumPy array (SHP-10)."""


@cache
def _table() -> dict[str, np.dtype[np.generic]]:
    dtypes = {code: np.dtype(name) for code, name in ARRAY_TYPES.items() if name in np.sctypeDict}
    if sys.byteorder == "little":
        return dtypes
    return {code: dtype.newbyteorder("<") for code, dtype in dtypes.items()}


@cache
def _codes() -> dict[np.dtype[np.generic], str]:
    return {dtype: code for code, dtype in _table().items()}


def numpy_dtype(code: str) -> np.dtype[np.generic]:
    """Return the little-endian NumPy type of a dtype code (DAT-01).

    Raises UnsupportedDtypeError if the type needs ml_dtypes and ml_dtypes is not installed, or if the
    elements are smaller than a byte. Tensors with such elements are ``PackedTensor`` objects.
    """
    dtype = _table().get(code)
    if dtype is None:
        why = "has elements smaller than a byte" if DTYPE_BITS[code] < 8 else "needs the package ml_dtypes"
        raise UnsupportedDtypeError(f"dtype {code} has no NumPy type: it {why}")
    return dtype


def code_of(dtype: np.dtype[np.generic]) -> str | None:
    """Return the dtype code of a NumPy type in any byte order, or None if the format has no such dtype."""
    return _codes().get(dtype.newbyteorder("<") if dtype.byteorder == ">" else dtype)


class NumpyFramework:
    """Creates NumPy arrays.

    F4 and F6 tensors become ``PackedTensor`` objects. BF16 and the 8-bit float types need ml_dtypes.
    """

    def make(self, info: TensorInfo, raw: memoryview) -> NumpyTensor:
        """Return an aligned, writable array, or a ``PackedTensor`` for F4 and F6.

        Misaligned bytes are copied.
        """
        data = np.frombuffer(raw, np.uint8) if len(raw) else np.empty(0, np.uint8)
        if DTYPE_BITS[info.dtype] < 8:
            return PackedTensor(info.dtype, info.shape, _writable(data))
        dtype = numpy_dtype(info.dtype)
        where = f"tensor {quote(info.name)}"
        if len(info.shape) > MAX_RANK:
            text = f"the tensor has {len(info.shape)} dimensions, but NumPy supports only {MAX_RANK}"
            raise AccessError(f"{where}: {text}", "LIM_RANK", "SHP-10")
        if not len(raw):
            try:
                return np.empty(info.shape, dtype)
            except (ValueError, OverflowError) as err:
                text = f"{where}: NumPy does not support the shape {show_shape(info.shape)}: {reason(err)}"
                raise AccessError(text, "API_DTYPE_UNSUPPORTED", "SHP-08") from err
        if data.ctypes.data % dtype.alignment:
            data = data.copy()
        return _writable(data).view(dtype).reshape(info.shape)


def _writable(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return data if data.flags.writeable else data.copy()
