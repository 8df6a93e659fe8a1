"""Writes NumPy arrays (rules WRT-07 to WRT-09)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.ma import MaskedArray  # imported explicitly because NumPy loads np.ma lazily

from ..arrays.numpy import Array, NumpyTensor, PackedTensor, code_of, numpy_dtype
from ..rules.dtypes import DTYPE_BITS
from ..text import shown
from .atomic import write_file
from .writer import DeferredBytes, FilePlan, TensorData, plan, tensor_data, tensor_error, unsupported_dtype


def save(tensors: Mapping[str, NumpyTensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return ``tensors`` as a file in memory. Arguments and errors are the same as for ``save_file``."""
    return _plan(tensors, metadata).to_bytes()


def save_file(
    tensors: Mapping[str, NumpyTensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Save ``tensors`` as the file ``path``, which is replaced atomically; see ``atomic.write_file``.

    Args:
        tensors: mapping of names to arrays of any memory layout and byte order. Elements are written as
            little-endian values in row-major order. Pass F4 and F6 tensors as ``PackedTensor``. For array
            subclasses, only the array data is written. Arrays that share memory are written separately.
        path: target file.
        metadata: mapping of strings to strings. If it is None, the file has no metadata map.

    Raises:
        WriteError: the input cannot be written, for example an array of objects, a masked array, or a tensor
            named ``__metadata__``. Nothing has been written.
        NotSavedError: the file cannot be written. The target is unchanged.
    """
    write_file(path, _plan(tensors, metadata).chunks())


def _plan(tensors: Mapping[str, NumpyTensor], metadata: Mapping[str, str] | None) -> FilePlan:
    return plan(tensor_data(tensors, _tensor_data), metadata)


def _tensor_data(name: str, value: object) -> TensorData:
    if isinstance(value, PackedTensor):
        raw = value.raw
        flat = isinstance(raw, np.ndarray) and raw.dtype == np.uint8 and raw.ndim == 1
        check_packed(name, value, "array", flat)
        return TensorData(name, value.dtype, value.shape, DeferredBytes(raw.nbytes, lambda: _raw(raw, "U8")))
    if not isinstance(value, (np.ndarray, np.generic)):
        raise unsupported_dtype(name, f"expected an array, not {type(value).__name__}")
    if isinstance(value, MaskedArray):
        raise unsupported_dtype(name, "the format cannot store the mask of a masked array")
    array: Array = np.asarray(value)
    code = code_of(array.dtype)
    if code is None:
        raise unsupported_dtype(name, f"the format has no dtype for the NumPy type {array.dtype}")
    return TensorData(name, code, array.shape, DeferredBytes(array.nbytes, lambda: _raw(array, code)))


def _raw(array: Array, code: str) -> memoryview:
    flat = np.ascontiguousarray(array, dtype=numpy_dtype(code)).reshape(-1)
    return flat.view(np.uint8).data


def check_packed(name: str, tensor: PackedTensor[Any], kind: str, flat: bool) -> None:
    if not flat:
        text = f"raw must be a one-dimensional {kind} of uint8"
        raise tensor_error(name, text, "WRT_SIZE_MISMATCH", "WRT-17")
    if DTYPE_BITS.get(tensor.dtype, 8) >= 8:
        text = f"a packed tensor must have dtype F4 or F6, not {shown(tensor.dtype, 40)}"
        raise unsupported_dtype(name, text)
