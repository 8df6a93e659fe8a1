"""Dtypes: each code over a scalar and over two dimensions, and escapes near a code."""

from __future__ import annotations

from safetensors_reference.rules.dtypes import DTYPE_BITS

from ...author.case import accepts, rejects
from ...author.file import FileBuilder, pattern
from ...author.parts import PLACES, rare

CODES = {code.lower().replace("_", "-"): code for code in DTYPE_BITS}
SCALARS_ELSEWHERE = ("U8", "F16", "F32", "C64")
"""Codes whose scalar stands in shape/scalar."""


SCALARS = {s: c for s, c in CODES.items() if DTYPE_BITS[c] >= 8 and c not in SCALARS_ELSEWHERE}


@accepts("SHP-03", "DTY-05", over=SCALARS, ahead=rare(SCALARS))
def scalar_of(f: FileBuilder, value: str) -> None:
    """A scalar of $value: an empty shape over the bytes of one element."""
    f.tensor("w", value, [])


TWO_BY_FOUR = {s: c for s, c in CODES.items() if c != "F4"}


@accepts("DAT-02", "DTY-05", ahead=rare(TWO_BY_FOUR), over=TWO_BY_FOUR)
def two_by_four(f: FileBuilder, value: str) -> None:
    """A tensor of $value in two rows of four."""
    f.tensor("w", value, [2, 4])


@accepts("DTY-09", "DTY-10")
def four_of_f6_e3m2(f: FileBuilder) -> None:
    """Four F6_E3M2 elements, the fewest that fill whole bytes."""
    f.tensor("w", "F6_E3M2", [4])


@rejects(
    "DTY-09",
    codes=("DTY_SUBBYTE", "OFF_SIZE_MISMATCH"),
    importance="high",
    over={"f4-without-bytes": ("F4", 0), "f6-e2m3": ("F6_E2M3", 1), "f6-e3m2-without-bytes": ("F6_E3M2", 0)},
)
def scalar_of_packed(f: FileBuilder, value: tuple[str, int]) -> None:
    """A scalar of a dtype narrower than a byte: $slug.

    One element of four or six bits never fills a byte.
    """
    f.tensor("w", value[0], [], pattern("w", value[1]))


@rejects("DTY-03", codes="DTY_BAD_TYPE", over=PLACES)
def null_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has null for a dtype.

    A default, or the dtype of the neighbour, would fit the size.
    """
    for index, name in enumerate("abc"):
        f.tensor(name, "F32", [1], fields={"dtype": "null"} if index == value else {})


@rejects("DTY-05", "OFF-05", codes="OFF_SIZE_MISMATCH", importance="critical", over=PLACES)
def wider_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors of two F32 elements says F64 instead."""
    for index, name in enumerate("abc"):
        f.tensor(name, "F64" if index == value else "F32", [2], pattern(name, 8))


@rejects(
    "DTY-01",
    "DTY-04",
    codes="DTY_UNKNOWN",
    over={
        "backslash-escaped": r'"\\u00558"',
        "other-digit": r'"\u00559"',
        "lower-case-letter": r'"\u00758"',
        "nul-at-end": r'"\u0055\u0038\u0000"',
        "zero-width-space": r'"U\u200b8"',
    },
)
def escaped_text(f: FileBuilder, value: str) -> None:
    """The dtype is written with escapes and is no code once they are decoded: $slug."""
    f.tensor("w", "U8", [8], fields={"dtype": value})


@accepts("ENT-09", "DTY-02", "DTY-03")
def names_like_dtype_forms(f: FileBuilder) -> None:
    """Tensor names spell forms that a dtype must not have; the dtypes are plain strings."""
    for name in ('{"U8":null}', '["F32"]', "null", "32", "F32|F16", "float32"):
        f.tensor(name, "U8", [2], fields={"dtype": ' "U8" '})


@accepts("DTY-15", "DTY-05")
def codes_absent_from_published_schema(f: FileBuilder) -> None:
    """One tensor each of BOOL, C64, F4, F6_E2M3 and F6_E3M2, which the published JSON schema leaves out."""
    for code in ("BOOL", "C64", "F4", "F6_E2M3", "F6_E3M2"):
        f.tensor(code.lower(), code, [8])


@rejects(
    "DTY-01",
    "DTY-15",
    codes="DTY_UNKNOWN",
    over={
        "f64s": "F64S",
        "u128": "U128",
    },
)
def code_near_another(f: FileBuilder, value: str) -> None:
    """The dtype is $value, a part of a code or a code with more behind it."""
    f.tensor("w", "U8", [16], fields={"dtype": f'"{value}"'})


@rejects(
    "DTY-05",
    "DTY-08",
    "OFF-05",
    codes="OFF_SIZE_MISMATCH",
    importance="high",
    over={"two-doubles": 16, "one-float": 4, "two-halves": 4 + 2},
)
def complex_sized_as(f: FileBuilder, value: int) -> None:
    """One C64 element over as many bytes as another idea of it would take: $slug."""
    f.tensor("w", "C64", [1], pattern("w", value))
