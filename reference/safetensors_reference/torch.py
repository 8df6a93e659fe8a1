"""Reading and writing with torch. The names are those of the official library's ``safetensors.torch``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from .buffers import Mode
from .dtypes import DTYPE_BITS
from .errors import AccessError
from .header import TensorInfo, rows
from .lazy import TensorFile
from .packed import PackedTensor
from .rules import ProfileName
from .source import SourceLike
from .torch_types import TORCH_DTYPES, torch_dtype
from .torch_write import save, save_file

__all__ = ["TorchFramework", "load", "load_file", "save", "save_file"]

TorchTensor: TypeAlias = "torch.Tensor | PackedTensor[torch.Tensor]"


class TorchFramework:
    """Makes torch tensors on the CPU.

    F4 becomes torch's packed type with the last dimension halved where that is even; F6, and F4 otherwise,
    become ``PackedTensor``.
    """

    def make(self, info: TensorInfo, raw: memoryview) -> TorchTensor:
        """Return a tensor over the bytes; they are copied when their address does not suit the dtype."""
        data = torch.frombuffer(raw, dtype=torch.uint8) if len(raw) else torch.empty(0, dtype=torch.uint8)
        return make(info.name, info.dtype, info.shape, data)


def make(name: str, code: str, shape: Sequence[int], data: torch.Tensor) -> TorchTensor:
    """Return a tensor of dtype ``code`` and ``shape`` over the one-dimensional bytes ``data``."""
    if DTYPE_BITS[code] < 8 and not halves(code, shape):
        return PackedTensor(code, tuple(shape), data)
    dtype = torch_dtype(code)
    if halves(code, shape):
        shape = (*shape[:-1], shape[-1] // 2)
    try:
        if data.numel() == 0:
            return torch.empty(tuple(shape), dtype=dtype)
        if data.data_ptr() % dtype.itemsize or data.storage_offset() % dtype.itemsize:
            data = data.clone()
        return data.view(dtype).reshape(tuple(shape))
    except (RuntimeError, OverflowError, TypeError) as err:
        text = (
            f"tensor {name[:80]!r}: torch cannot hold the shape {list(shape[:8])}: {str(err).splitlines()[0]}"
        )
        raise AccessError(text, "API_DTYPE_UNSUPPORTED", "SHP-08") from err


def halves(code: str, shape: Sequence[int]) -> bool:
    """Return whether torch's packed type holds this tensor: F4 with an even last dimension (DTY-12)."""
    return code == "F4" and code in TORCH_DTYPES and len(shape) > 0 and shape[-1] % 2 == 0


def load(data: bytes | bytearray | memoryview, profile: ProfileName = "hardened") -> dict[str, TorchTensor]:
    """Load every tensor of a file in memory. Raises as ``load_file`` does."""
    return load_file(data, profile=profile)


def load_file(
    what: SourceLike, mode: Mode = "copy", profile: ProfileName = "hardened"
) -> dict[str, TorchTensor]:
    """Load every tensor of a file on the CPU.

    Args:
        what: path, bytes-like object or seekable binary file object.
        mode: ``copy`` into memory of its own, or ``mmap`` for views of the mapped file.
        profile: whose options to take where readers legitimately differ.

    Returns:
        name -> tensor, in header order. All share one storage without overlapping.

    Raises:
        InvalidFileError: the file breaks rules.
        UnreadableError: it cannot be read, or became shorter meanwhile.
        UnsupportedDtypeError: a tensor's dtype has no type in this torch; ``safe_open`` reads the others.
    """
    with TensorFile(what, TorchFramework(), mode, profile) as file:
        raw = file.data()
        data = torch.frombuffer(raw, dtype=torch.uint8) if len(raw) else torch.empty(0, dtype=torch.uint8)
        return _views(file, data)


def _views(file: TensorFile[TorchTensor], data: torch.Tensor) -> dict[str, TorchTensor]:
    """Return all tensors as strided views of one typed buffer per dtype, the cheapest thing torch has."""
    out: dict[str, TorchTensor] = {}
    buffers: dict[str, tuple[torch.Tensor, int] | None] = {}
    strides: dict[tuple[int, ...], tuple[int, ...]] = {}
    for name, code, dims, begin, end in rows(file.header.tensors):
        if code not in buffers:
            buffers[code] = _typed(code, data)
        typed = buffers[code]
        if typed is None or begin == end or begin % typed[1]:
            out[name] = make(name, code, dims, data[begin:end])
            continue
        shape = tuple(dims)
        stride = strides.get(shape)
        if stride is None:
            stride = strides[shape] = _contiguous(shape)
        out[name] = typed[0].as_strided(shape, stride, begin // typed[1])
    return out


def _typed(code: str, data: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """Return (buffer viewed as the dtype, element size), None where every tensor is made on its own."""
    if DTYPE_BITS[code] < 8 or code not in TORCH_DTYPES:
        return None
    dtype = TORCH_DTYPES[code]
    if data.data_ptr() % dtype.itemsize:
        return None
    whole = data.numel() - data.numel() % dtype.itemsize
    return data[:whole].view(dtype), dtype.itemsize


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    out: list[int] = []
    step = 1
    for dim in reversed(shape):
        out.append(step)
        step *= dim
    return tuple(reversed(out))
