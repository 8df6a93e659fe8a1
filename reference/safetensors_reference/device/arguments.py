"""What a load onto a device refuses, before anything is opened and before memory is asked for."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..arrays.torch import make, torch_dtype
from ..header.model import Row
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import AccessError


def check_numbers(**values: object) -> None:
    """Raise AccessError for what is neither None nor a whole number from 1 on."""
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise AccessError(f"{name} must be a number from 1 on, not {repr(value)[:80]}")


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
