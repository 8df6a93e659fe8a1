"""What a load onto a device refuses before it starts, and what it does to tensors in the end."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..arrays.packed import PackedTensor
from ..arrays.torch_types import TORCH_DTYPES, torch_dtype
from ..arrays.torch_views import TorchTensor, make
from ..header.model import Row
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import AccessError


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
