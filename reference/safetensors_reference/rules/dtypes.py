"""The dtype table: dtype codes, their widths and their array types (DTY-01 and DTY-05).

docs/add-a-rule.md lists every other place that a new dtype changes, under "Add a dtype".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Dtype(NamedTuple):
    """Width of one element (below 8 bits packed, DTY-09), and the name of its type in array libraries.

    Older versions lack the newest types. Only torch has a type for F4, whose items hold two elements.
    """

    bits: int
    array_type: str | None = None


DTYPES: Mapping[str, Dtype] = MappingProxyType(
    {
        "BOOL": Dtype(8, "bool"),
        "F4": Dtype(4, "float4_e2m1fn_x2"),
        "F6_E2M3": Dtype(6),
        "F6_E3M2": Dtype(6),
        "U8": Dtype(8, "uint8"),
        "I8": Dtype(8, "int8"),
        "F8_E5M2": Dtype(8, "float8_e5m2"),
        "F8_E4M3": Dtype(8, "float8_e4m3fn"),
        "F8_E8M0": Dtype(8, "float8_e8m0fnu"),
        "F8_E4M3FNUZ": Dtype(8, "float8_e4m3fnuz"),
        "F8_E5M2FNUZ": Dtype(8, "float8_e5m2fnuz"),
        "I16": Dtype(16, "int16"),
        "U16": Dtype(16, "uint16"),
        "F16": Dtype(16, "float16"),
        "BF16": Dtype(16, "bfloat16"),
        "I32": Dtype(32, "int32"),
        "U32": Dtype(32, "uint32"),
        "F32": Dtype(32, "float32"),
        "C64": Dtype(64, "complex64"),
        "F64": Dtype(64, "float64"),
        "I64": Dtype(64, "int64"),
        "U64": Dtype(64, "uint64"),
    }
)
"""Maps dtype codes to their properties. Writers store tensors in the opposite order (WRT-03)."""
DTYPE_BITS: Mapping[str, int] = MappingProxyType({code: dtype.bits for code, dtype in DTYPES.items()})
"""Maps dtype codes to the width of one element in bits."""
ARRAY_TYPES: Mapping[str, str] = MappingProxyType(
    {code: dtype.array_type for code, dtype in DTYPES.items() if dtype.array_type is not None}
)
"""Maps dtype codes to the name of the type in NumPy, ml_dtypes and torch."""
