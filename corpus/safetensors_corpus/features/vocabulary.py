"""Vocabulary of the mutations."""

from __future__ import annotations

from safetensors_reference.rules.book import HEADER_CAP
from safetensors_reference.rules.dtypes import DTYPE_BITS

DTYPES = tuple(name.encode() for name in DTYPE_BITS)
BITS = {name.encode(): bits for name, bits in DTYPE_BITS.items()}
PACKED = tuple(d for d in DTYPES if BITS[d] % 8)
FIELDS = (b'"dtype"', b'"shape"', b'"data_offsets"')
RESERVED = b'"__metadata__"'
U64 = 2**64

NO_DTYPES = (
    tuple(d.lower() for d in DTYPES)
    + tuple(d.title() for d in DTYPES if d.title() != d)
    + tuple(d + b" " for d in DTYPES[:6])
    + tuple(b" " + d for d in DTYPES[-6:])
    + tuple(d[:-1] for d in DTYPES if d[:-1] not in DTYPES)
    + (b"", b"F", b"F128", b"F6", b"F8", b"F8_E4M3FN", b"I4", b"U4", b"I128", b"C128", b"C32", b"BF32")
    + (b"float32", b"FLOAT", b"bfloat16", b"bool", b"int64", b"torch.float32", b"<f4", b"Q4_0", b"NF4")
    + tuple(d + b"X" for d in DTYPES if len(d) == max(map(len, DTYPES)))
    + (b"F32\\u0000", b"F\\u0000", b"\\u00a0F32", b"F32\xef\xbb\xbf", b"\xef\xbc\xa632", b"null", b"0")
)
"""Invalid dtypes: wrong case, width or spelling, and names from other formats (DTY-01)."""

LENGTHS = (
    HEADER_CAP + 1, HEADER_CAP + 8, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1, 2**32, 2**53, 2**62,
    2**63 - 9, 2**63 - 1, 2**63, 2**64 - 16, 2**64 - 9, 2**64 - 8, 2**64 - 1,
)  # fmt: skip
"""Header lengths above the limit (LIM-01, FRM-02, FRM-05, FRM-06)."""

BIG = (
    2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**60, 2**61 - 1, 2**61,
    2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 8, 2**64 - 1,
)  # fmt: skip
"""Numbers below 2^64 that are near the limits of numeric types (SHP-05, OFF-13)."""

TOO_BIG = (
    b"18446744073709551616", b"18446744073709551617", b"18446744073709551624", b"1" + b"0" * 20,
    b"36893488147419103232", b"9" * 25, b"340282366920938463463374607431768211456", b"1" + b"0" * 400,
)  # fmt: skip
"""Numbers of 2^64 and above (SHP-07)."""

WORDS = (
    b"null", b"true", b"false", b"0", b"1", b"-1", b"1.5", b'""', b'"x"', b"[]", b"{}", b"[0]",
    b'{"a":0}',
)  # fmt: skip
"""One or more JSON values of each type."""
BAD_WORDS = (
    b"", b"nul", b"NULL", b"None", b"True", b"tRue", b"undefined", b"'x'", b"x", b"//c", b"/*c*/0",
    b"nan", b'"', b'"x', b"[", b"]", b"{", b"}", b"[}", b"{]", b",", b":", b"`x`", b"0 0", b'"x" "y"', b"@",
)  # fmt: skip
"""Invalid JSON values (HDR-07)."""

SPACES = (b" ", b"\t", b"\n", b"\r", b"  ", b"\r\n", b" \t\n\r")
LONG_SPACES = (b" " * 65, b"\n" * 70, b"\t" * 130)
"""JSON whitespace (HDR-08)."""
NO_SPACES = (
    b"\x00", b"\x0b", b"\x0c", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xe3\x80\x80", b"\xef\xbb\xbf", b"\x1a",
    b"\x7f",
)  # fmt: skip
"""Characters that some programs treat as whitespace although JSON does not (HDR-03, HDR-07)."""

NOT_UTF8 = (
    b"\xff", b"\xfe", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xe0\x80\x80", b"\xe2\x82",
    b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf0\x80\x80\x80", b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80",
)  # fmt: skip
"""Invalid UTF-8: stray, overlong and truncated sequences, surrogates, and excessive code points (HDR-01)."""

CONTROLS = (b"\x00", b"\x01", b"\x08", b"\t", b"\n", b"\x0b", b"\x0c", b"\r", b"\x1b", b"\x1f")
"""Characters that must be escaped in a string (HDR-14)."""
BAD_ESCAPES = (
    b"\\x41", b"\\u12", b"\\u", b"\\u12g4", b"\\U00000041", b"\\'", b"\\0", b"\\a", b"\\v", b"\\ ",
    b"\\\n", b"\\ud800", b"\\udfff", b"\\ud83d", b"\\ud83dx", b"\\ude00\\ud83d", b"\\ud83d\\ud83d",
    b"\\ud800\\ue000", b"\\ud800\\udbff", b"\\udbff\\ud7ff", b"\\udc00", b"\\udbff", b"\\ude00",
    b"\\ud800\\uDG00", b"\\ud83d\\u0041", b"\\ud83d\\n", b"\\u{41}", b"\\u+041",
)  # fmt: skip
"""Invalid escapes and lone surrogates (HDR-15)."""

BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16")
MAGIC = (
    b"GGUF", b"\x80\x02", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"\x7fELF", b"\x93NUMPY\x01\x00", b"SAFE",
    b"\x1f\x8b",
)  # fmt: skip
"""Magic bytes of other formats (FRM-10)."""

NEAR_RESERVED = (
    b'"__metadata"', b'"_metadata_"', b'"metadata"', b'"__Metadata__"', b'"__METADATA__"',
    b'"__metadata__ "', b'" __metadata__"', b'"__meta_data__"', b'"__metadata__\\u0000"',
    b'"__metadata___"',
)  # fmt: skip
"""Tensor names that resemble the reserved key (MET-05)."""
NEAR_FIELDS = {
    b'"dtype"': (b'"Dtype"', b'"DTYPE"', b'"dtype "', b'" dtype"', b'"d_type"', b'"type"', b'"dtype\\u0000"'),
    b'"shape"': (b'"Shape"', b'"SHAPE"', b'"shape "', b'"shapes"', b'"dims"', b'"shap"'),
    b'"data_offsets"': (
        b'"data_offset"',
        b'"dataOffsets"',
        b'"DATA_OFFSETS"',
        b'"offsets"',
        b'"data-offsets"',
    ),
}
"""Similar names for each field name (ENT-05)."""

NAMES = (
    b"w", b"a", b"b", b"model.layers.0.weight", b"model.layers.10.weight", b"x/y", b"../x",
    b"/etc/passwd", b"C:\\\\x", b"", b" ", b"\xc3\xa9", b"e\xcc\x81", b"\xe6\x9d\x83\xe9\x87\x8d",
    b"\xf0\x9f\x98\x80", b"\\u0000", b"\\n", b"a\\tb", b"\\\"", b"\\\\", b"\\/", b"\\ud83d\\ude01",
    b"F32", b"dtype", b"shape", b"data_offsets", b"__class__", b"__proto__", b"constructor", b"null",
    b"0", b"-1", b"\xef\xbb\xbfx", b"\xe2\x80\xae", b"\xc2\xa0", b"metadata", b"weight_map", b"%s",
    b"None", b"this", b"self", b"undefined", b"NaN", b"true", b"2", b"10", b"007",
    b"{}", b"[0]", b"a.b", b"A", b"__metadata__.x", b"\xef\xbf\xbd", b"\xf4\x8f\xbf\xbf", b"\\u200b",
)  # fmt: skip
"""Raw tensor names, without quotes (ENT-07, ENT-08, HDR-19)."""
SPECIAL_NAMES = frozenset(
    {"dtype", "shape", "data_offsets", "constructor", "null", "weight_map", "F32", "metadata"}
)
"""Alphanumeric names that have a special meaning elsewhere (ENT-09, MET-05)."""
META_KEYS = (
    b"format", b"", b"a", b"b", b"\xc3\xa9", b"x.y", b"license", b"e\xcc\x81", b"\\u0041", b"dtype",
    b"__metadata__", b"shape",
)  # fmt: skip
ESCAPED = (
    b"\\b", b"\\f", b"\\n", b"\\r", b"\\t", b"\\/", b'\\"', b"\\\\", b"\\u001f", b"\\u007F", b"\\u00e9",
    b"\\u00E9", b"\\uD7FF", b"\\ue000", b"\\uffff", b"\\ud800\\udc00", b"\\udbff\\udfff",
    b"\\uD83D\\uDE00", b"\\uDB40\\uDD00", b"\\ud800\\udfff", b"\\uDBFF\\uDC00", b"\\uabcd", b"\\uEF01",
    b"\\ud89a\\udf23", b"\\uDA67\\udeBC", b"\\uD945\\uddef", b"\\ud83d\\uDE00",
)  # fmt: skip
"""Valid escapes of all kinds (HDR-15)."""
META_VALUES = (
    b"pt", b"", b"np", b"{}", b"null", b"\xf0\x9f\x98\x80", b"\\u0000", b"a\\nb", b'\\"q\\"',
    b"x" * 300, b'{\\"a\\": [1, 2]}', b"[1, 2]", b" 1.0 ", b"e\xcc\x81", *ESCAPED,
)  # fmt: skip
"""Raw keys and values of the metadata, without quotes (MET-03, MET-04, MET-09)."""
UNKNOWN_FIELDS = (b'"x"', b'""', b'"strides"', b'"__metadata__"', b'"w"', b'"dtype\\u0020"', b'"\xc3\xa9"')
HUGE_NUMBERS = (b"1e309", b"-1e999", b"1E400", b"1" + b"0" * 310, b"123e1000000")
"""Numbers outside the range of a double (HDR-18)."""
