"""Represent the tensors to write as NumPy arrays, in the environment of the library under test."""

import operator
from typing import Any

import numpy as np

NUMPY = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "C64": "<c8",
}
CODES = {
    **{np.dtype(text).name: code for code, text in NUMPY.items()},
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}
"""Maps type names to dtype codes, except for types below a byte, which ml_dtypes stores differently."""
OTHER = {"C128": "<c16", "F128": "g", "STRING": "<U2", "DATETIME": "<M8[s]", "VOID": "V3"}
"""Element types that the format does not have, by their names in the corpus."""


def code(dtype: Any) -> str:
    """Return the dtype code of a NumPy type, or NumPy's name for a type that the format does not have."""
    return CODES.get(dtype.name, str(dtype.name))


def array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a view of the tensor's memory. Raises NotImplementedError if NumPy cannot represent it."""
    if getattr(tensor, "nbytes", None) is not None:
        raise NotImplementedError(
            "the writer accepts arrays, and the size of an array follows from its shape"
        )
    if tensor.dtype == "OBJECT":
        return np.array([object() for _ in range(max(int(np.prod(tensor.shape)), 1))], dtype=object)
    text = NUMPY.get(tensor.dtype) or OTHER.get(tensor.dtype)
    if text is None:
        raise NotImplementedError(f"NumPy has no {tensor.dtype}")
    dtype = np.dtype(text)
    if tensor.byteorder == "big":
        dtype = dtype.newbyteorder(">")
    return np.ndarray(tensor.shape, dtype, tensor.storage, tensor.offset, tensor.strides)


def named(tensors: list[Any], value: Any = array, name: Any = operator.attrgetter("name")) -> dict[Any, Any]:
    """Return name -> ``value(tensor)``. Raises NotImplementedError if a name appears twice."""
    out = {name(t): value(t) for t in tensors}
    if len(out) != len(tensors):
        raise NotImplementedError("the writer accepts a map, in which no name can appear twice")
    return out


def raw(tensor: Any) -> bytearray:
    """Return the bytes of a tensor. Raises NotImplementedError if they are not a single buffer."""
    if tensor.strides is not None or tensor.byteorder != "little":
        raise NotImplementedError("the writer accepts buffers but no views")
    size = getattr(tensor, "nbytes", None)
    if size is None:
        count = int(np.prod(tensor.shape, dtype=object))
        size = (count * BITS.get(tensor.dtype, 64) + 7) // 8
    return bytearray(tensor.storage[tensor.offset : tensor.offset + size])


def part(array: Any) -> tuple[Any, Any, bytes]:
    return code(array.dtype), array.shape, array.tobytes()


def elements(part: Any) -> Any:
    flat = np.ascontiguousarray(part).reshape(-1)
    return flat.view(np.uint8) if flat.size else b""


BITS = {
    **{code: np.dtype(text).itemsize * 8 for code, text in NUMPY.items()},
    "BF16": 16,
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
