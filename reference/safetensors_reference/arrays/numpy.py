"""NumPy arrays over the bytes of a data buffer, and the NumPy types of dtype codes.

Types that NumPy lacks come from ml_dtypes when it is installed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..header.model import TensorInfo
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import AccessError, UnsupportedDtypeError
from .packed import PackedTensor

Array = npt.NDArray[Any]
NumpyTensor = Array | PackedTensor[npt.NDArray[np.uint8]]
MAX_RANK = 64
"""Most dimensions that NumPy holds (SHP-10)."""

_NATIVE = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "C64": "<c8",
}
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


@cache
def _table() -> dict[str, np.dtype[np.generic]]:
    table = {code: np.dtype(text) for code, text in _NATIVE.items()}
    try:
        import ml_dtypes
    except ImportError:
        return table
    table.update({code: np.dtype(getattr(ml_dtypes, name)) for code, name in _ML_DTYPES.items()})
    return table


@cache
def _codes() -> dict[np.dtype[np.generic], str]:
    return {dtype: code for code, dtype in _table().items()}


def numpy_dtype(code: str) -> np.dtype[np.generic]:
    """Return the NumPy type of a whole-byte dtype code, little-endian (DAT-01).

    Raises UnsupportedDtypeError for a type that only ml_dtypes has when that is not installed. Sub-byte codes
    have no NumPy type either; they are handed out as ``PackedTensor``.
    """
    dtype = _table().get(code)
    if dtype is None:
        why = "is packed below a byte" if DTYPE_BITS[code] < 8 else "needs the package ml_dtypes"
        raise UnsupportedDtypeError(f"dtype {code} has no NumPy type: it {why}")
    return dtype


def code_of(dtype: np.dtype[np.generic]) -> str | None:
    """Return the dtype code of a NumPy type in any byte order, None when the format has none."""
    return _codes().get(dtype.newbyteorder("<") if dtype.byteorder == ">" else dtype)


class NumpyFramework:
    """Makes NumPy arrays. F4 and F6 become ``PackedTensor``; BF16 and eight-bit floats need ml_dtypes."""

    def make(self, info: TensorInfo, raw: memoryview) -> NumpyTensor:
        """Return an aligned, writable array; the bytes are copied when their address does not suit."""
        data = np.frombuffer(raw, np.uint8) if len(raw) else np.empty(0, np.uint8)
        if DTYPE_BITS[info.dtype] < 8:
            return PackedTensor(info.dtype, info.shape, _writable(data))
        dtype = numpy_dtype(info.dtype)
        if len(info.shape) > MAX_RANK:
            text = f"{len(info.shape)} dimensions, NumPy holds {MAX_RANK}"
            raise AccessError(f"tensor {info.name[:80]!r}: {text}", "LIM_RANK", "SHP-10")
        if not len(raw):
            return self._empty(info, dtype)
        if data.ctypes.data % dtype.alignment:
            data = data.copy()
        return _writable(data).view(dtype).reshape(info.shape)

    @staticmethod
    def _empty(info: TensorInfo, dtype: np.dtype[Any]) -> Array:
        try:
            return np.empty(info.shape, dtype)
        except (ValueError, OverflowError) as err:
            text = f"tensor {info.name[:80]!r}: NumPy cannot hold the shape {list(info.shape[:8])}: {err}"
            raise AccessError(text, "API_DTYPE_UNSUPPORTED", "SHP-08") from err


def _writable(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return data if data.flags.writeable else data.copy()
