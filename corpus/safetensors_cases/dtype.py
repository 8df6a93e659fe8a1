"""Dtypes: the 22 codes, their widths, packed elements smaller than a byte, and strings that are not codes."""

from __future__ import annotations

from math import prod

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import FileBuilder, pattern, size_of
from safetensors_corpus.author.parts import PLACES, rare, sized, three_tensors
from safetensors_reference.rules.dtypes import DTYPE_BITS

CODES = list(DTYPE_BITS)
REPORTED: dict[str, str] = {
    **dict.fromkeys(("c64", "f6-e2m3", "f6-e3m2", "f8-e4m3fnuz", "f8-e5m2fnuz"), "FB-207"),
    "f4": "FB-126 FB-207 FB-212",
    "f8-e8m0": "FB-126 FB-131 FB-207 FB-212",
    "f8-e4m3": "FB-115",
    "bf16": "FB-42 FB-222",
    "bool": "FB-30",
}
"""Slug of a code -> reported bugs in programs that did not support it."""
SCALARS_ELSEWHERE = ("U8", "F16", "F32", "C64")
"""Codes that shape/scalar already tests as scalars."""
SCALARS = [c for c in CODES if DTYPE_BITS[c] >= 8 and c not in SCALARS_ELSEWHERE]
TWO_BY_FOUR = [c for c in CODES if c != "F4"]


@accepts("DTY-05 DTY-01", over=CODES, bugs=REPORTED)
def eight_elements(f: FileBuilder, value: str) -> None:
    """A tensor has eight $value elements in one dimension."""
    f.tensor("w", value, [8])


@accepts("SHP-04 DTY-01", ahead=rare(CODES), over=CODES)
def no_elements(f: FileBuilder, value: str) -> None:
    """A tensor of dtype $value has a dimension of zero.

    The other dimension is even so that libraries that pack two elements into one can represent the tensor.
    """
    f.tensor("w", value, [0, 4])


@rejects("DTY-05 OFF-05", "OFF_SIZE_MISMATCH", importance="critical", over=CODES)
def one_byte_less(f: FileBuilder, value: str) -> None:
    """A tensor has eight $value elements, but the range and the file are one byte too short.

    A reader that relies on the shape reads past the end of the file.
    """
    f.tensor("w", value, [8], pattern("w", size_of(value, [8]) - 1))


@rejects("DTY-05 OFF-05", "OFF_SIZE_MISMATCH", over=CODES)
def one_byte_more(f: FileBuilder, value: str) -> None:
    """A tensor has eight $value elements, but the range and the file are one byte too long.

    A reader that copies the range into a buffer sized for the shape writes past the end of the buffer.
    """
    f.tensor("w", value, [8], pattern("w", size_of(value, [8]) + 1))


@rejects("DTY-05 OFF-05", "OFF_SIZE_MISMATCH", over=CODES)
def one_byte_more_among_three(f: FileBuilder, value: str) -> None:
    """The second of three tensors has dtype $value and shape [2, 8], and its range is one byte too long."""
    f.tensor("before", "U8", [3])
    f.tensor("w", value, [2, 8], pattern("w", size_of(value, [2, 8]) + 1))
    f.tensor("behind", "F32", [2])
    f.metadata({"format": "pt"})


@rejects("DTY-05 OFF-05", "OFF_SIZE_MISMATCH", issue="leejet/stable-diffusion.cpp#1396", bugs="FB-220")
def f64_with_half_the_bytes(f: FileBuilder) -> None:
    """A tensor has four F64 elements in 16 bytes, which is the size of four F32 elements.

    A reader that narrows wide elements while loading may check the size against the narrower type.
    """
    f.tensor("w", "F64", [4], pattern("w", 16))


@accepts("DTY-01 DTY-07 API-04", importance="high")
def all_codes_in_one_file(f: FileBuilder) -> None:
    """The file has one tensor of every dtype.

    If the framework lacks a dtype, the reader may fail for that tensor, but not for the others.
    """
    for code in DTYPE_BITS:
        f.tensor(code.lower(), code, [8])


@accepts(
    "DTY-09 DTY-10",
    over={
        "f4-2": ("F4", [2]),
        "f4-2x4": ("F4", [2, 4]),
        "f4-3x2": ("F4", [3, 2]),
        "f6-e2m3-4": ("F6_E2M3", [4]),
        "f6-e2m3-2x2": ("F6_E2M3", [2, 2]),
        "f6-e3m2-2x6": ("F6_E3M2", [2, 6]),
    },
)
def packed(f: FileBuilder, dtype: str, shape: list[int]) -> None:
    """Packed elements fill whole bytes: $slug.

    The shape counts elements, not the bytes or pairs in which they are stored.
    """
    f.tensor("w", dtype, shape)


@accepts(
    "DTY-12 DTY-09",
    over={"f4-2x1": ("F4", [2, 1]), "f4-2x3": ("F4", [2, 3]), "f6-e2m3-4x3": ("F6_E2M3", [4, 3])},
)
def packed_rows_share_bytes(f: FileBuilder, dtype: str, shape: list[int]) -> None:
    """Packed elements fill whole bytes in total, but a single row does not: $slug."""
    f.tensor("w", dtype, shape)


PART_OF_A_BYTE = {
    "f4-scalar-rounded-up": ("F4", [], 1),
    "f4-1-rounded-up": ("F4", [1], 1),
    "f4-1-rounded-down": ("F4", [1], 0),
    "f4-3-rounded-up": ("F4", [3], 2),
    "f4-3-rounded-down": ("F4", [3], 1),
    "f4-3x5-rounded-up": ("F4", [3, 5], 8),
    "f4-3x3-rows-rounded-up": ("F4", [3, 3], 6),
    "f6-e2m3-1-rounded-up": ("F6_E2M3", [1], 1),
    "f6-e2m3-1-rounded-down": ("F6_E2M3", [1], 0),
    "f6-e2m3-2-rounded-up": ("F6_E2M3", [2], 2),
    "f6-e2m3-3-rounded-down": ("F6_E2M3", [3], 2),
    "f6-e3m2-scalar-rounded-up": ("F6_E3M2", [], 1),
    "f6-e3m2-2-rounded-down": ("F6_E3M2", [2], 1),
    "f6-e3m2-5-rounded-up": ("F6_E3M2", [5], 4),
    "f6-e3m2-5-rounded-down": ("F6_E3M2", [5], 3),
}


@rejects("DTY-09", "DTY_SUBBYTE OFF_SIZE_MISMATCH", over=PART_OF_A_BYTE)
def part_of_a_byte(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The last packed element ends inside a byte, and the range is rounded: $slug.

    Integer division discards the missing bits, so the size and the range seem to agree.
    """
    sized(f, dtype, shape, size)


@rejects("DTY-09", "DTY_SUBBYTE OFF_SIZE_MISMATCH", over=PLACES)
def part_of_a_byte_among_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has three F4 elements in two bytes."""
    three_tensors(f, value, usual=("U8", [4]), dtype="F4", shape=[3], size=2)


@rejects("DTY-05 OFF-05", "OFF_SIZE_MISMATCH", over={"f6-e3m2-8-as-4-bit": ("F6_E3M2", [8], 4)})
@rejects(
    "DTY-10 OFF-05",
    "OFF_SIZE_MISMATCH",
    over={
        "f4-2x2-as-pairs": ("F4", [2, 2], 4),
        "f4-8-one-per-byte": ("F4", [8], 8),
        "f6-e2m3-4-one-per-byte": ("F6_E2M3", [4], 4),
        "f6-e3m2-8-one-per-byte": ("F6_E3M2", [8], 8),
    },
)
def packed_sized_otherwise(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The range of a packed tensor matches a different way of counting elements: $slug.

    Some frameworks store two F4 elements in one byte and report the shape of that storage. The shape in a
    file counts the elements themselves.
    """
    sized(f, dtype, shape, size)


UNKNOWN = {
    "empty": ('""', 32),
    "f32-lower-case": ('"f32"', 32),
    "f32-leading-space": ('" F32"', 32),
    "f32-trailing-space": ('"F32 "', 32),
    "f32-trailing-nul": ('"F32\\u0000"', 32),
    "f32-wide-letter": ('"\uff2632"', 32),
    "float16": ('"float16"', 16),
    "float32": ('"float32"', 32),
    "numpy-f4": ('"<f4"', 32),
    "bool-lower-case": ('"bool"', 8),
    "f128": ('"F128"', 128),
    "c128": ('"C128"', 128),
    "i128": ('"I128"', 128),
    "u4": ('"U4"', 4),
    "i4": ('"I4"', 4),
    "f8": ('"F8"', 8),
    "f8-e4m3fn": ('"F8_E4M3FN"', 8),
    "f8-e4m3b11fnuz": ('"F8_E4M3B11FNUZ"', 8),
    "fp8-e4m3": ('"FP8_E4M3"', 8),
    "e8m0": ('"E8M0"', 8),
    "f6": ('"F6"', 6),
    "f4-e2m1": ('"F4_E2M1"', 4),
    "q4-k": ('"Q4_K"', 32),
    "two-codes": ('"F32|F16"', 32),
}
"""slug -> JSON text, and bytes of eight elements."""


@rejects("DTY-01", "DTY_UNKNOWN", over=UNKNOWN, bugs="FB-117")
def unknown_code(f: FileBuilder, text: str, size: int) -> None:
    """The dtype is not one of the 22 codes: $slug.

    A dtype must match exactly. A guess may have the right width, but another reader may guess differently.
    """
    f.tensor("w", "U8", [8], pattern("w", size), fields={"dtype": text})


@rejects("DTY-01 DTY-15", "DTY_UNKNOWN")
def unknown_code_around_f16(f: FileBuilder) -> None:
    """The dtype is XF16Y, which the pattern in the published JSON schema accepts."""
    f.tensor("w", "F16", [2], fields={"dtype": '"XF16Y"'})


@rejects("DTY-01", "DTY_UNKNOWN", importance="high", over=PLACES)
def unknown_code_among_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has the unknown dtype F128.

    Skipping the tensor would hide the fault.
    """
    three_tensors(f, value, usual=("U8", [16]), fields={"dtype": '"F128"'})


@rejects("OFF-04 DTY-01", "OFF_OUT_OF_BOUNDS DTY_UNKNOWN OFF_HOLE", issue="kekzl/imp#1603", bugs="FB-65")
def unknown_code_and_far_range(f: FileBuilder) -> None:
    """A tensor has an unknown dtype and a range far past the end of the file.

    Without an element width the reader cannot check the size, but it can still check the bounds.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [8], b"", begin=2**40, end=2**40 + 8, fields={"dtype": '"F99"'})


@rejects(
    "DTY-03",
    "DTY_BAD_TYPE",
    over={"null": "null", "number": "32", "true": "true", "array": '["F32"]', "empty-array": "[]"},
)
@rejects("DTY-02", "DTY_BAD_TYPE", over={"empty-object": "{}", "object-with-string": '{"name":"F32"}'})
def of_other_type(f: FileBuilder, value: str) -> None:
    """The dtype is $value instead of a string."""
    f.tensor("w", "F32", [2], fields={"dtype": value})


@chooses("dtype-as-object", "DTY-02", codes="DTY_BAD_TYPE", over=("U8", "F32", "BF16"))
def as_object(f: FileBuilder, value: str) -> None:
    """The dtype is an object with the single key $value, whose value is null.

    Parsers that map dtypes to an enumeration may read this form as a variant without content.
    """
    f.tensor("w", value, [2], fields={"dtype": f'{{"{value}":null}}'})


OBJECT_FORM = {
    "over-object": '{"F32":{}}',
    "over-number": '{"F32":4}',
    "of-two-keys": '{"F32":null,"I32":null}',
    "of-unknown-code": '{"F99":null}',
}


@rejects("DTY-02", "DTY_BAD_TYPE DTY_UNKNOWN", over=OBJECT_FORM)
def object_form(f: FileBuilder, value: str) -> None:
    """The dtype is an object in a form that no known reader accepts: $slug."""
    f.tensor("w", "F32", [2], fields={"dtype": value})


@accepts(
    "DTY-04", over={"one-letter": ("U8", '"\\u00558"'), "all-letters": ("F32", '"\\u0046\\u0033\\u0032"')}
)
def escaped(f: FileBuilder, dtype: str, spelled: str) -> None:
    """The dtype is written with JSON escapes: $slug."""
    f.tensor("w", dtype, [2], fields={"dtype": spelled})


@accepts("SHP-03 DTY-05", over=SCALARS, ahead=rare(SCALARS))
def scalar_of(f: FileBuilder, value: str) -> None:
    """A scalar of dtype $value has an empty shape and one element."""
    f.tensor("w", value, [])


@accepts("DAT-02 DTY-05", ahead=rare(TWO_BY_FOUR), over=TWO_BY_FOUR)
def two_by_four(f: FileBuilder, value: str) -> None:
    """A tensor of dtype $value has two rows of four elements."""
    f.tensor("w", value, [2, 4])


@accepts("DTY-09 DTY-10")
def four_of_f6_e3m2(f: FileBuilder) -> None:
    """A tensor has four F6_E3M2 elements, the smallest number that fills whole bytes."""
    f.tensor("w", "F6_E3M2", [4])


@rejects(
    "DTY-09",
    "DTY_SUBBYTE OFF_SIZE_MISMATCH",
    over={"f4-without-bytes": ("F4", 0), "f6-e2m3": ("F6_E2M3", 1), "f6-e3m2-without-bytes": ("F6_E3M2", 0)},
)
def scalar_of_packed(f: FileBuilder, dtype: str, size: int) -> None:
    """A tensor is a scalar of a dtype narrower than a byte: $slug.

    A single element of four or six bits does not fill a byte.
    """
    f.tensor("w", dtype, [], pattern("w", size))


@rejects("DTY-03", "DTY_BAD_TYPE", over=PLACES)
def null_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has null as its dtype.

    A default dtype, or the dtype of a neighbouring tensor, would match the size of the range.
    """
    three_tensors(f, value, usual=("F32", [1]), fields={"dtype": "null"})


@rejects("DTY-05 OFF-05", "OFF_SIZE_MISMATCH", importance="critical", over=PLACES)
def wider_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has two F32 elements but declares F64."""
    three_tensors(f, value, dtype="F64", size=8)


ESCAPED_TEXT = {
    "backslash-escaped": r'"\\u00558"',
    "other-digit": r'"\u00559"',
    "lower-case-letter": r'"\u00758"',
    "nul-at-end": r'"\u0055\u0038\u0000"',
    "zero-width-space": r'"U\u200b8"',
}


@rejects("DTY-01 DTY-04", "DTY_UNKNOWN", over=ESCAPED_TEXT)
def escaped_text(f: FileBuilder, value: str) -> None:
    """The dtype is written with escapes, and the decoded string is not a code: $slug."""
    f.tensor("w", "U8", [8], fields={"dtype": value})


@accepts("ENT-09 DTY-02 DTY-03")
def names_like_dtype_forms(f: FileBuilder) -> None:
    """Tensor names look like invalid dtypes, but the actual dtypes are valid strings."""
    for name in ('{"U8":null}', '["F32"]', "null", "32", "F32|F16", "float32"):
        f.tensor(name, "U8", [2], fields={"dtype": ' "U8" '})


@accepts("DTY-15 DTY-05")
def codes_absent_from_published_schema(f: FileBuilder) -> None:
    """The file has tensors of BOOL, C64, F4, F6_E2M3 and F6_E3M2, which the published JSON schema omits."""
    for code in ("BOOL", "C64", "F4", "F6_E2M3", "F6_E3M2"):
        f.tensor(code.lower(), code, [8])


@rejects("DTY-01 DTY-15", "DTY_UNKNOWN", over=("F64S", "U128"))
def code_near_another(f: FileBuilder, value: str) -> None:
    """The dtype is $value, which only resembles a code."""
    f.tensor("w", "U8", [16], fields={"dtype": f'"{value}"'})


@rejects(
    "DTY-05 DTY-08 OFF-05", "OFF_SIZE_MISMATCH", over={"two-doubles": 16, "one-float": 4, "two-halves": 4 + 2}
)
def complex_sized_as(f: FileBuilder, value: int) -> None:
    """The range of one C64 element has the size that results from a wrong element width: $slug."""
    f.tensor("w", "C64", [1], pattern("w", value))


LONGEST = [code for code in DTYPE_BITS if len(code) == max(map(len, DTYPE_BITS))]


@rejects("DTY-01", "DTY_UNKNOWN", over=[f"{code}{end}" for code in LONGEST for end in ("X", "2", "_FNUZ")])
def longer_than_the_longest_code(f: FileBuilder, value: str) -> None:
    """The dtype is $value, which begins with one of the two longest codes.

    A reader that copies a dtype into a buffer sized for the longest code drops the rest of the string.
    """
    f.tensor("w", "F8_E4M3FNUZ", [8], fields={"dtype": f'"{value}"'})


PART_OF_A_BYTE_BY_RANK = {
    f"{dtype}-{'x'.join(map(str, shape))}-{word}".lower().replace("_", "-"): (dtype, shape, size)
    for dtype, shapes in {
        "F4": ([1, 1], [3, 1, 3]),
        "F6_E2M3": ([1, 1], [1, 2], [3, 1], [1, 1, 5], [3, 2, 1], [7, 1, 1]),
        "F6_E3M2": ([1, 1], [2, 1], [1, 3], [5, 1, 1], [1, 2, 3], [1, 1, 7]),
    }.items()
    for shape in shapes
    for word, size in (
        ("rounded-up", -(-prod(shape) * DTYPE_BITS[dtype] // 8)),
        ("rounded-down", prod(shape) * DTYPE_BITS[dtype] // 8),
    )
}
"""slug -> dtype, shape of two or three dimensions, and size in bytes, for each possible remainder."""


@rejects("DTY-09", "DTY_SUBBYTE OFF_SIZE_MISMATCH", over=PART_OF_A_BYTE_BY_RANK)
def part_of_a_byte_by_rank(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The last packed element of a tensor of several dimensions ends inside a byte: $slug."""
    sized(f, dtype, shape, size)
