"""Shapes: the form of the array and the spelling of its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import rejects

if TYPE_CHECKING:
    from ...author.file import FileBuilder


def _raw(f: FileBuilder, text: str, size: int) -> None:
    """Add one tensor with the shape written as ``text`` over ``size`` bytes."""
    f.tensor("w", "F32", [size // 4], fields={"shape": text})


@rejects(
    "SHP-01",
    codes="SHP_BAD_TYPE",
    over={
        "null": ("null", 4),
        "number": ("2", 8),
        "true": ("true", 4),
        "string": ('"[2]"', 8),
        "digit-string": ('"2"', 8),
        "empty-object": ("{}", 4),
        "object": ('{"0":2}', 8),
        "nested-array": ("[[2]]", 8),
        "array-of-string": ('["2"]', 8),
        "array-of-true": ("[true]", 4),
        "array-of-null": ("[null]", 4),
        "null-in-last-place": ("[2,null]", 8),
    },
)
def of_other_type(f: FileBuilder, value: tuple[str, int]) -> None:
    """The shape is no array of integers: $slug."""
    _raw(f, *value)


@rejects(
    "SHP-02",
    ahead={"half": ("SHP-01",)},
    codes="ENT_BAD_INTEGER",
    over={
        "point-zero": ("[2.0]", 8),
        "exponent-zero": ("[2e0]", 8),
        "exponent-upper-case": ("[2E0]", 8),
        "exponent-shift": ("[0.2e1]", 8),
        "half": ("[2.5]", 8),
        "minus-zero": ("[-0]", 0),
        "point-zero-in-last-place": ("[1,2.0]", 8),
    },
)
def number_spelled(f: FileBuilder, value: tuple[str, int]) -> None:
    """A dimension is a number that is not spelled as a plain integer: $slug.

    Parsers that turn every number into a double cannot tell, others refuse.
    """
    _raw(f, *value)


@rejects(
    "SHP-01",
    codes="ENT_BAD_INTEGER",
    importance="critical",
    over={"1": ("[-1]", 4), "2": ("[-2]", 8), "1-times-2": ("[-1,-2]", 8), "2-in-last-place": ("[1,-2]", 8)},
    bugs=("FB-54", "FB-67", "FB-117"),
)
def negative(f: FileBuilder, value: tuple[str, int]) -> None:
    """A dimension is negative: minus $slug.

    Two negative dimensions have the product that fits; one may stand for a wildcard or wrap around.
    """
    _raw(f, *value)


@rejects(
    "HDR-07",
    "SHP-02",
    codes=("HDR_NOT_JSON", "ENT_BAD_INTEGER"),
    over={
        "leading-zero": "[02]",
        "plus-sign": "[+2]",
        "hexadecimal": "[0x2]",
        "bare-point": "[2.]",
        "not-a-number": "[NaN]",
        "infinity": "[Infinity]",
    },
)
def number_outside_json(f: FileBuilder, value: str) -> None:
    """A dimension is spelled in a way that JSON does not know: $slug."""
    _raw(f, value, 8)


@rejects(
    "OFF-05",
    "SHP-07",
    codes=("ENT_BAD_INTEGER", "SHP_OVERFLOW", "OFF_SIZE_MISMATCH"),
    importance="critical",
    over={
        "2p64": (str(2**64), 0),
        "2p64-plus-2": (str(2**64 + 2), 8),
        "2p128-plus-2": (str(2**128 + 2), 8),
        "60000-digits": ("1" * 60_000, 0),
    },
)
@rejects(
    "OFF-05",
    "SHP-07",
    "API-14",
    codes=("ENT_BAD_INTEGER", "SHP_OVERFLOW", "OFF_SIZE_MISMATCH"),
    importance="critical",
    over={"400-digits": ("1" * 400, 0)},
    bugs=("FB-116",),
)
def beyond_64_bits(f: FileBuilder, value: tuple[str, int]) -> None:
    """A dimension does not fit 64 bits: $slug.

    Cut to 64 bits it may be just what the range holds; very long numbers are slow to convert.
    """
    _raw(f, f"[{value[0]}]", value[1])


@rejects(
    "SHP-07", "SHP-04", codes=("ENT_BAD_INTEGER", "SHP_OVERFLOW"), over={"front": "{},0", "back": "0,{}"}
)
def beyond_64_bits_beside_zero(f: FileBuilder, value: str) -> None:
    """A dimension of 2^64 stands at the $slug of an empty tensor's shape."""
    _raw(f, f"[{value.format(2**64)}]", 0)


@rejects("SHP-02", codes="ENT_BAD_INTEGER", importance="high")
def minus_zero_beside_escaped_minus(f: FileBuilder) -> None:
    """A dimension is spelled -0, and the name of the tensor is a minus sign written as an escape.

    A reader that only counts minus signs in text and meaning finds one of each.
    """
    f.tensor("-", "U8", [0], b"", key=r'"\u002d"', fields={"shape": "[-0]"})
