"""Names, values and shapes that a random write is made of."""

from __future__ import annotations

NAMES = (
    "", " ", "a b", "\u00e9", "e\u0301", "\u00c9", "\u91cd\u307f", "\U0001f9ca", "a\0b", "a\0",
    "\x01\t\n\r\x1f", "a\x7fb", "a\u2028b", "a\uffff", "\ufdd0", "a\u202eb", 'a"b', "a\\", "\\u0041",
    "a/b", "../../a", '"},"b":{"', "0", "null", "dtype", "shape", "data_offsets", "__proto__",
    "__metadata___", "__METADATA__", "__metadata__ ", "n" * 300, "n" * 5000, "\ufb01",
)  # fmt: skip
LONE = ("a\ud800", "\udc00a", "\udc00\ud800", "\udfff", "\ud800b")
NO_TEXTS = (7, None, True, 1.5, 0, False)
NO_MAPS = (["key", "value"], "key", 7, True, [["key", "value"]], 1.5)
SPECIAL = {
    "F16": "017d55fd00800100", "BF16": "817fa5ff00800100", "F32": "0100807fa5a5a5ff0000008001000000",
    "F64": "010000000000f07fa5a5a5a5a5a5f5ff00000000000000800100000000000000",
    "C64": "0100807f0000008001000000a5a5a5ff", "I64": "0000000000000080ffffffffffffff7f0100000000002000",
    "U64": "ffffffffffffffff0100000000002000", "F8_E8M0": "ff00", "F8_E4M3FNUZ": "8000", "F8_E4M3": "ff7f80",
    "F8_E5M2": "fd7d80", "F8_E5M2FNUZ": "80", "BOOL": "000101",
}  # fmt: skip
"""Dtype -> bytes that a conversion would change: NaNs with a payload, minus zero, extremes."""
WRAPS: tuple[tuple[str, list[int], int], ...] = (
    ("U8", [2**32, 2**32], 0), ("U8", [2**62 + 1, 4], 4), ("F64", [2**61], 0), ("F32", [2**62 + 1], 4),
    ("U8", [2**61], 0), ("U8", [2**61 + 1], 1), ("F4", [2**62], 0), ("U8", [2**16, 2**16], 0),
    ("F32", [2**30 + 1], 4), ("F16", [2**63 + 2], 4), ("U8", [2**64 + 3], 3), ("F6_E2M3", [2**63], 0),
)  # fmt: skip
"""Shapes whose size wraps in a machine word, and the bytes that are left then: dtype, shape, bytes."""
DISK = 4096
"""Largest file in bytes where the disk is full."""
