"""Real writers as implementations of write cases: the official library's and this project's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch

from safetensors_corpus.in_process import GivenTensor
from safetensors_reference import DTYPE_BITS
from safetensors_reference import numpy as reference_numpy
from safetensors_reference import torch as reference_torch
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.writing import atomic
from safetensors_reference.writing import numpy as numpy_write
from safetensors_reference.writing import torch as torch_write
from safetensors_reference.writing.writer import TensorData, plan

NUMPY: dict[str, Any] = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2", "F16": "f2", "U32": "u4", "I32": "i4",
    "F32": "f4", "U64": "u8", "I64": "i8", "F64": "f8", "C64": "c8", "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "C128": "c16", "F128": np.longdouble, "STRING": "U2", "DATETIME": "M8[s]", "VOID": "V3", "OBJECT": object,
    "U4": ml_dtypes.uint4, "I4": ml_dtypes.int4, "F8_E3M4": ml_dtypes.float8_e3m4,
}  # fmt: skip
TORCH = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "F16": torch.float16, "BF16": torch.bfloat16, "U32": torch.uint32, "I32": torch.int32,
    "F32": torch.float32, "U64": torch.uint64, "I64": torch.int64, "F64": torch.float64,
    "C64": torch.complex64, "C128": torch.complex128, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu, "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip
"""Dtype code -> element type of the array library."""


def as_map(tensors: Sequence[GivenTensor], make: Any) -> dict[Any, Any]:
    """Return the tensors as the map that the writers take."""
    out = {t.name: make(t) for t in tensors}
    if len(out) != len(tensors):
        raise NotImplementedError("a map holds a name once")
    return out


def array(tensor: GivenTensor) -> Any:
    """Return an array over the storage. Raises NotImplementedError where there is no such array."""
    if tensor.nbytes is not None:
        raise NotImplementedError("an array has the size of its shape")
    if tensor.dtype == "OBJECT":
        return np.full(tensor.shape, None, object)
    if tensor.dtype not in NUMPY:
        raise NotImplementedError(f"NumPy has no {tensor.dtype}")
    dtype = np.dtype(NUMPY[tensor.dtype])
    if tensor.byteorder == "big":
        dtype = dtype.newbyteorder(">")
    out: Any = np.ndarray(tensor.shape, dtype, tensor.storage, tensor.offset, tensor.strides)
    return out


def torch_tensor(tensor: GivenTensor) -> torch.Tensor:
    """Return a tensor of torch over its storage. Raises NotImplementedError where there is none."""
    if tensor.nbytes is not None or tensor.byteorder == "big" or tensor.dtype not in TORCH:
        raise NotImplementedError("torch cannot represent this tensor")
    dtype = TORCH[tensor.dtype]
    width = dtype.itemsize
    strides = tensor.strides
    if strides is not None and any(s < 0 or s % width for s in strides):
        raise NotImplementedError("torch does not support these strides")
    if tensor.offset % width:
        raise NotImplementedError("torch does not support this offset")
    size = len(tensor.storage) // width
    whole = torch.frombuffer(tensor.storage, dtype=dtype, count=size) if size else torch.empty(0, dtype=dtype)
    if strides is None:
        shape = tensor.shape
        strides = tuple(int(s) for s in np.empty(shape, f"V{width}").strides)
    return whole.as_strided(tensor.shape, [s // width for s in strides], tensor.offset // width)


def buffer(tensor: GivenTensor) -> bytes:
    """Return a tensor as plain bytes. Raises NotImplementedError for a view with strides."""
    if tensor.strides is not None or tensor.byteorder == "big":
        raise NotImplementedError("takes contiguous little-endian bytes")
    if tensor.nbytes is not None:
        return bytes(tensor.storage[tensor.offset : tensor.offset + tensor.nbytes])
    if tensor.dtype not in DTYPE_BITS:
        return bytes(tensor.storage)
    bits = DTYPE_BITS[tensor.dtype]
    for dim in tensor.shape:
        bits *= dim
    return bytes(tensor.storage[tensor.offset : tensor.offset + bits // 8])


class ReferenceNumpy:
    """``safetensors_reference.numpy``."""

    def write(self, path: Path, tensors: Sequence[GivenTensor], metadata: Any) -> None:
        numpy_write.save_file(as_map(tensors, self.tensor), path, metadata)

    def tensor(self, tensor: GivenTensor) -> Any:
        if DTYPE_BITS.get(tensor.dtype, 8) < 8:
            return PackedTensor(tensor.dtype, tensor.shape, np.frombuffer(buffer(tensor), np.uint8))
        return array(tensor)

    def resave(self, path: Path) -> None:
        numpy_write.save_file(reference_numpy.load_file(path), path)


class ReferenceNumpyMapped(ReferenceNumpy):
    """``safetensors_reference.numpy``, files mapped when they are loaded."""

    def resave(self, path: Path) -> None:
        numpy_write.save_file(reference_numpy.load_file(path, mode="mmap"), path)


class ReferenceTorch:
    """``safetensors_reference.torch``."""

    def write(self, path: Path, tensors: Sequence[GivenTensor], metadata: Any) -> None:
        torch_write.save_file(as_map(tensors, self.tensor), path, metadata)

    def tensor(self, tensor: GivenTensor) -> Any:
        if DTYPE_BITS.get(tensor.dtype, 8) < 8:
            raw = torch.frombuffer(bytearray(buffer(tensor)), dtype=torch.uint8) if tensor.storage else None
            if raw is None:
                raw = torch.empty(0, dtype=torch.uint8)
            return PackedTensor(tensor.dtype, tensor.shape, raw)
        return torch_tensor(tensor)

    def resave(self, path: Path) -> None:
        torch_write.save_file(reference_torch.load_file(path), path)


class ReferenceRaw:
    """The writer below the array libraries, which takes bytes."""

    def write(self, path: Path, tensors: Sequence[GivenTensor], metadata: Any) -> None:
        rows = [TensorData(t.name, t.dtype, t.shape, buffer(t)) for t in tensors]
        atomic.write_file(path, plan(rows, metadata).chunks())
