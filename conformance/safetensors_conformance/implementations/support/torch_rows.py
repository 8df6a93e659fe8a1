"""Convert torch tensors to answers. This module runs in the environment of the library under test."""

from typing import Any

import torch

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "bfloat16": "BF16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4",
}
CODES = {getattr(torch, name): code for name, code in _NAMES.items() if hasattr(torch, name)}
"""Maps torch types to dtype codes. Older releases lack some types."""
LACKS = ("dtype-f6-e2m3", "dtype-f6-e3m2")


def part(tensor: Any) -> tuple[Any, list[int], bytes]:
    code, shape = kind(tensor.dtype, tensor.shape)
    try:
        flat = tensor.contiguous().view(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    # an exception of torch that does not mean that the library lacks a feature
    except NotImplementedError as err:
        raise TypeError(f"torch cannot lay out the elements of a tensor: {err}") from err
    return code, shape, data


def kind(dtype: Any, shape: Any) -> tuple[str, list[int]]:
    """Return the dtype code and the shape. Torch packs two four-bit floats into one element."""
    code, sizes = CODES.get(dtype, str(dtype)), list(shape)
    if sizes and code == "F4":
        sizes[-1] *= 2
    return code, sizes


def row(name: str, tensor: Any) -> tuple[str, Any, list[int], bytes]:
    return name, *part(tensor)


def device_row(name: str, tensor: Any) -> tuple[str, Any, list[int], Any]:
    return name, *kind(tensor.dtype, tensor.shape), tensor
