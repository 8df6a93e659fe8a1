"""Reading and writing with NumPy. The names are those of the official library's ``safetensors.numpy``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays.lazy import TensorFile, load_all
from .arrays.numpy_types import MAX_RANK, numpy_dtype
from .arrays.packed import PackedTensor
from .buffers import Mode
from .header.model import TensorInfo
from .rules.book import ProfileName
from .rules.dtypes import DTYPE_BITS
from .rules.errors import AccessError
from .source import SourceLike
from .writing.numpy import save, save_file

__all__ = ["NumpyFramework", "load", "load_file", "save", "save_file"]

Array = npt.NDArray[Any]
NumpyTensor = Array | PackedTensor[npt.NDArray[np.uint8]]


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


def load(data: bytes | bytearray | memoryview, profile: ProfileName = "hardened") -> dict[str, NumpyTensor]:
    """Load every tensor of a file in memory. Raises as ``load_file`` does."""
    return load_file(data, profile=profile)


def load_file(
    what: SourceLike, mode: Mode = "copy", profile: ProfileName = "hardened"
) -> dict[str, NumpyTensor]:
    """Load every tensor of a file.

    Args:
        what: path, bytes-like object or seekable binary file object.
        mode: ``copy`` into memory of its own, or ``mmap`` for views of the mapped file.
        profile: whose options to take where readers legitimately differ.

    Returns:
        name -> array of the logical shape, in header order; ``PackedTensor`` for F4 and F6.

    Raises:
        InvalidFileError: the file breaks rules.
        UnreadableError: it cannot be read, or became shorter meanwhile.
        UnsupportedDtypeError: a tensor needs ml_dtypes, which is missing; ``safe_open`` reads the others.
    """
    with TensorFile(what, NumpyFramework(), mode, profile) as file:
        return load_all(file)
