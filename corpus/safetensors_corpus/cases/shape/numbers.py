"""Shapes: the form of the array and the spelling of its numbers, and near misses that are spelled well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, rejects
from ...author.file import pattern
from ...author.parts import PLACES

if TYPE_CHECKING:
    from ...author.file import FileBuilder

Spelled = tuple[str, int]
"""JSON text of the shape, bytes in the file (of U8)."""


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


def _bytes(f: FileBuilder, value: Spelled) -> None:
    f.tensor("w", "U8", [value[1]], fields={"shape": value[0]})


@rejects(
    "SHP-02",
    ahead={"nearly-two": ("SHP-01",)},
    codes="ENT_BAD_INTEGER",
    over={
        "point-zero-first": ("[2.0,3]", 6),
        "point-zero-middle": ("[2,1.0,3]", 6),
        "point-and-many-zeros": ("[2." + "0" * 100 + "]", 2),
        "point-zero-and-exponent": ("[2.0e0]", 2),
        "exponent-plus": ("[1E+0,2]", 2),
        "zero-to-a-power": ("[0e5]", 0),
        "zero-to-a-large-power": ("[3,0e99999999999]", 0),
        "minus-zero-last": ("[2,-0]", 0),
        "minus-zero-point-zero": ("[-0.0]", 0),
        "nearly-two": ("[1.9999999999999999999]", 2),
        "2p53-point-zero": ("[0,9007199254740992.0]", 0),
    },
)
def spelling(f: FileBuilder, value: Spelled) -> None:
    """A dimension is a number that JSON allows and a shape does not: $slug.

    As a double the dimension is whole and fits the range, so a check after conversion finds nothing.
    """
    _bytes(f, value)


@rejects(
    "HDR-07",
    "SHP-02",
    codes=("HDR_NOT_JSON", "ENT_BAD_INTEGER", "SHP_BAD_TYPE"),
    over={
        "two-zeros": ("[00]", 0),
        "leading-zero-last": ("[2,03]", 6),
        "thousands-comma": ("[2,000]", 0),
        "minus-alone": ("[-]", 0),
        "point-first": ("[.2e1]", 2),
        "exponent-empty": ("[2e]", 2),
        "exponent-sign-alone": ("[2e+]", 2),
        "underscore": ("[1_0]", 10),
        "hexadecimal-last": ("[1,0x02]", 2),
        "wide-digit": ("[\uff12]", 2),
    },
)
def spelling_outside_json(f: FileBuilder, value: Spelled) -> None:
    """A dimension is spelled in a way that JSON does not know: $slug."""
    _bytes(f, value)


@rejects(
    "OFF-05",
    "SHP-07",
    codes=("ENT_BAD_INTEGER", "SHP_OVERFLOW", "OFF_SIZE_MISMATCH"),
    importance="critical",
    over={
        "2p64-middle": (f"[2,{2**64},3]", 0),
        "2p64-last": (f"[2,{2**64}]", 0),
        "2p64-plus-1-last": (f"[2,{2**64 + 1}]", 2),
        "2p96-plus-2": (f"[{2**96 + 2}]", 2),
    },
)
def too_large(f: FileBuilder, value: Spelled) -> None:
    """A dimension needs more than 64 bits: $slug.

    The bits that are left when it is cut give just the size of the range.
    """
    _bytes(f, value)


@rejects(
    "SHP-01",
    codes="ENT_BAD_INTEGER",
    importance="critical",
    over={
        "2p64-less-2": (f"[{2 - 2**64}]", 2),
        "2p32-less-2": (f"[{2 - 2**32}]", 2),
        "2p63": (f"[{-(2**63)},2]", 0),
    },
)
def minus(f: FileBuilder, value: Spelled) -> None:
    """A dimension is negative, and wrapping or multiplying makes it fit the range: minus $slug."""
    _bytes(f, value)


@rejects("SHP-01", codes="SHP_BAD_TYPE", over=PLACES)
def null_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors, an empty one, has null for a shape."""
    for index, name in enumerate("abc"):
        if index == value:
            f.tensor(name, "U8", [0], fields={"shape": "null"})
        else:
            f.tensor(name, "U8", [4])


@rejects("SHP-01", codes="ENT_BAD_INTEGER", importance="critical", over=PLACES)
def minus_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has two negative dimensions, whose product fits."""
    for index, name in enumerate("abc"):
        f.tensor(name, "U8", [4], fields={"shape": "[-2,-2]"} if index == value else {})


@accepts("SHP-01", "SHP-02")
def zeros_at_end_of_numbers(f: FileBuilder) -> None:
    """The dimensions 10, 100 and 20 end in zeros, and 0 stands alone.

    A rule against leading zeros must not touch them.
    """
    f.tensor("a", "U8", [10, 100])
    f.tensor("b", "U8", [0])
    f.tensor("c", "U8", [20, 1, 10])


@accepts("HDR-08", "SHP-01")
def spread_over_lines(f: FileBuilder) -> None:
    """Each number of a shape stands on a line of its own."""
    f.tensor("w", "U8", [2, 3], fields={"shape": "[\n  2,\n  3\n]"})


@accepts("SHP-04", "SHP-08", "SHP-07")
def fifteen_digits(f: FileBuilder) -> None:
    """A tensor of shape [281474976710655, 0], the largest dimension that no reader is known to refuse."""
    f.tensor("w", "F32", [2**48 - 1, 0])


@accepts("SHP-04", "SHP-05", over={"u8": ("U8", [0, 2**30, 2**29]), "f32": ("F32", [2**20, 0, 2**30])})
def large_product_beside_zero(f: FileBuilder, value: tuple[str, list[int]]) -> None:
    """An empty tensor whose other dimensions have a large product that fits 64 bits: $slug."""
    f.tensor("w", *value)


@rejects(
    "OFF-05",
    "SHP-11",
    codes="OFF_SIZE_MISMATCH",
    importance="critical",
    over={
        "4": 4,
        "8": 8,
    },
)
def dimension_behind_ones(f: FileBuilder, value: int) -> None:
    """A dimension of 2 stands behind $value others, and the range fits only without it.

    Readers that keep a fixed number of dimensions find shape and range in agreement.
    """
    f.tensor("w", "U8", [3] + [1] * (value - 1) + [2], pattern("w", 3))
