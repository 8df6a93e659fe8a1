"""Dtype codes and torch types, both ways. Importing this module imports torch."""

from __future__ import annotations

import torch

from ..rules.errors import UnsupportedDtypeError

_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    # Two four-bit elements of the last dimension in one element of torch.
    "F4": "float4_e2m1fn_x2",
}

# Older releases of torch lack the newest types; a tensor of such a type then fails on its own (DTY-07).
TORCH_DTYPES: dict[str, torch.dtype] = {
    code: getattr(torch, name) for code, name in _NAMES.items() if hasattr(torch, name)
}
CODES: dict[torch.dtype, str] = {dtype: code for code, dtype in TORCH_DTYPES.items()}


def torch_dtype(code: str) -> torch.dtype:
    """Return the torch type of a dtype code. Raises UnsupportedDtypeError when this torch has none."""
    dtype = TORCH_DTYPES.get(code)
    if dtype is None:
        raise UnsupportedDtypeError(f"dtype {code} has no type in torch {torch.__version__}")
    return dtype
