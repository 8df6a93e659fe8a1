"""Tensors over the buffer of a file, on any device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from ..dtypes import DTYPE_BITS
from ..errors import AccessError
from ..packed import PackedTensor
from ..torch import TorchTensor, make
from ..torch_types import TORCH_DTYPES, torch_dtype
from .plan import Row


def check_rows(
    file: str, wanted: Iterable[Row], dtype: torch.dtype | None = None, all_dtypes: bool = False
) -> None:
    """Raise what would be raised for rows that torch cannot hold, before any memory is asked for.

    Raises UnsupportedDtypeError for a dtype that this torch lacks, and AccessError for the shape of an empty
    tensor, which may be beyond what torch counts to, or for complex numbers that should become real ones.
    """
    codes = set()
    nothing = torch.empty(0, dtype=torch.uint8, device="cpu")
    try:
        for name, code, shape, begin, end in wanted:
            codes.add(code)
            if begin == end:
                make(name, code, shape, nothing)
        for code in codes:
            if DTYPE_BITS[code] >= 8:
                torch_dtype(code)
    except AccessError as err:
        raise type(err)(f"{file}: {err}", err.code, err.rule) from err
    if dtype is not None and all_dtypes and not dtype.is_complex and "C64" in codes:
        raise AccessError(f"{file}: tensors of complex numbers do not become {dtype}; load them with names=")


def make_views(wanted: Iterable[Row], data: torch.Tensor) -> dict[str, TorchTensor]:
    """Return name -> tensor over ``data``, the buffer of the rows: uint8[plan.size].

    The buffer is seen as each dtype once, and every tensor is one strided view of that, the cheapest thing
    torch has. All rows lie on multiples of their element size.
    """
    out: dict[str, TorchTensor] = {}
    typed: dict[str, tuple[torch.Tensor, int, int] | None] = {}
    strides: dict[tuple[int, ...], tuple[int, ...]] = {}
    nothing = data[:0]
    for name, code, dims, begin, end in wanted:
        if begin == end:
            with data.device:
                out[name] = make(name, code, dims, nothing)
            continue
        if code not in typed:
            typed[code] = _typed(code, data)
        buffer = typed[code]
        if buffer is None:
            out[name] = make(name, code, dims, data[begin:end])
            continue
        shape = tuple(dims)
        stride = strides.get(shape)
        if stride is None:
            stride = strides[shape] = _contiguous(shape)
        whole, first, size = buffer
        out[name] = whole.as_strided(shape, stride, first + begin // size)
    return out


def converted(tensor: TorchTensor, dtype: torch.dtype, all_dtypes: bool) -> TorchTensor:
    """Return ``tensor`` as ``dtype`` if it is floating or all are to be converted, else as it is.

    Packed elements are never converted: torch does not say which half of a byte comes first (DTY-11).
    """
    if isinstance(tensor, PackedTensor) or tensor.dtype == TORCH_DTYPES.get("F4"):
        return tensor
    return tensor.to(dtype) if all_dtypes or tensor.dtype.is_floating_point else tensor


def cloned(tensor: TorchTensor) -> TorchTensor:
    """Return the tensor in memory of its own."""
    if isinstance(tensor, PackedTensor):
        return PackedTensor(tensor.dtype, tensor.shape, tensor.raw.clone())
    if not tensor.numel():
        return tensor
    # As bytes, for torch cannot copy every dtype.
    return tensor.reshape(-1).view(torch.uint8).clone().view(tensor.dtype).view(tensor.shape)


def _typed(code: str, data: torch.Tensor) -> tuple[torch.Tensor, int, int] | None:
    """Return (buffer as the dtype, its place in the storage, element size), None for packed dtypes."""
    if DTYPE_BITS[code] < 8:
        return None
    dtype = torch_dtype(code)
    whole = data.numel() - data.numel() % dtype.itemsize
    view = data[:whole].view(dtype)
    return view, view.storage_offset(), dtype.itemsize


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    out: list[int] = []
    step = 1
    for dim in reversed(shape):
        out.append(step)
        step *= dim
    return tuple(reversed(out))
