"""Creates torch tensors from a data buffer on any device, and maps dtype codes to torch types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import mul
from typing import Any, TypeAlias

import torch

from ..header.model import TensorInfo, TensorRow, show_shape
from ..rules.dtypes import ARRAY_TYPES, DTYPE_BITS
from ..rules.errors import AccessError, UnsupportedDtypeError, reason
from ..text import quote, shown
from .numpy import PackedTensor

TorchTensor: TypeAlias = "torch.Tensor | PackedTensor[torch.Tensor]"
LoadedTensor: TypeAlias = "torch.Tensor | Any"
"""A ``TorchTensor``. Few files contain F4 or F6, so the type includes ``Any`` to let callers use tensors
without a cast.
"""
Device: TypeAlias = "str | int | torch.device"

# Older versions of torch lack the newest types. Loading fails only for tensors of these types (DTY-07).
TORCH_DTYPES: dict[str, torch.dtype] = {
    code: getattr(torch, name) for code, name in ARRAY_TYPES.items() if hasattr(torch, name)
}
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Maps sizes in bytes to integer types. torch and NumPy can copy all elements as such integers."""
CODES: dict[torch.dtype, str] = {dtype: code for code, dtype in TORCH_DTYPES.items()}


def torch_dtype(code: str) -> torch.dtype:
    """Return the torch type of a dtype code. Raises UnsupportedDtypeError if torch has no such type."""
    dtype = TORCH_DTYPES.get(code)
    if dtype is None:
        raise UnsupportedDtypeError(f"dtype {code} has no type in torch {torch.__version__}")
    return dtype


def make(name: str, code: str, shape: Sequence[int], data: torch.Tensor) -> TorchTensor:
    """Return a tensor with dtype ``code`` and shape ``shape``, backed by the one-dimensional ``data``."""
    if DTYPE_BITS[code] < 8 and not halves(code, shape):
        return PackedTensor(code, tuple(shape), data)
    dtype = torch_dtype(code)
    if halves(code, shape):
        shape = (*shape[:-1], shape[-1] // 2)
    try:
        if data.numel() == 0:
            return torch.empty(tuple(shape), dtype=dtype, device=data.device)
        if data.data_ptr() % dtype.itemsize or data.storage_offset() % dtype.itemsize:
            data = data.clone()
        return data.view(dtype).reshape(tuple(shape))
    except (RuntimeError, OverflowError, TypeError) as err:
        text = f"tensor {quote(name)}: torch does not support the shape {show_shape(shape)}: {reason(err)}"
        raise AccessError(text, "API_DTYPE_UNSUPPORTED", "SHP-08") from err


def halves(code: str, shape: Sequence[int]) -> bool:
    """Return whether torch's packed F4 type can represent a tensor: its last dimension is even (DTY-12)."""
    return code == "F4" and code in TORCH_DTYPES and len(shape) > 0 and shape[-1] % 2 == 0


def make_views(wanted: Iterable[TensorRow], data: torch.Tensor) -> dict[str, TorchTensor]:
    """Return tensors that share the buffer ``data``. Raises the same errors as ``make``.

    For speed, the buffer is viewed as each dtype only once, and the tensors are strided views of the result.
    """
    out: dict[str, TorchTensor] = {}
    typed: dict[str, _TypedBuffer | None] = {}
    strides: dict[tuple[int, ...], tuple[int, ...]] = {}
    for name, code, dims, begin, end in wanted:
        if code not in typed:
            typed[code] = _typed_buffer(code, data)
        buffer = typed[code]
        if buffer is None or begin == end or begin % buffer[2]:
            out[name] = make(name, code, dims, data[begin:end])
            continue
        shape = tuple(dims)
        stride = strides.get(shape)
        if stride is None:
            steps = accumulate(reversed(shape[1:]), mul, initial=1) if shape else ()
            stride = strides[shape] = tuple(steps)[::-1]
        whole, first, size = buffer
        out[name] = whole.as_strided(shape, stride, first + begin // size)
    return out


class TorchFramework:
    """Creates torch tensors on a device. Raises AccessError if the device cannot be used.

    F4 tensors use torch's packed type if their last dimension is even. Other F4 and F6 tensors become
    ``PackedTensor`` objects.
    """

    def __init__(self, device: Device = "cpu") -> None:
        try:
            self.device = torch.empty(0, device=device).device
        except Exception as err:  # torch raises many exception types, even AssertionError
            raise AccessError(f"device {shown(device)} cannot be used ({reason(err)})") from err
        if self.device.type == "meta":
            raise AccessError("device 'meta' cannot be used because its tensors have no elements")

    def make(self, info: TensorInfo, raw: memoryview) -> TorchTensor:
        return make(info.name, info.dtype, info.shape, self.put(raw))

    def put(self, raw: memoryview) -> torch.Tensor:
        """Return the bytes as a one-dimensional tensor on the device.

        On the CPU, the bytes are not copied.
        """
        if not len(raw):
            return torch.empty(0, dtype=torch.uint8, device=self.device)
        data = torch.frombuffer(raw, dtype=torch.uint8)
        try:
            return data.to(self.device)
        except RuntimeError as err:
            text = f"{self.device} has too little memory for {len(raw):,} bytes ({reason(err)})"
            raise AccessError(text, "LIM_MEMORY", "LIM-06") from err


_TypedBuffer = tuple[torch.Tensor, int, int]
"""The buffer viewed as a dtype, its offset in the storage in elements, and the bytes per element."""


def _typed_buffer(code: str, data: torch.Tensor) -> _TypedBuffer | None:
    if DTYPE_BITS[code] < 8 or code not in TORCH_DTYPES:
        return None
    dtype = TORCH_DTYPES[code]
    if data.data_ptr() % dtype.itemsize or data.storage_offset() % dtype.itemsize:
        return None
    view = data[: data.numel() - data.numel() % dtype.itemsize].view(dtype)
    return view, view.storage_offset(), dtype.itemsize
