"""Shapes: permitted shapes, the form of the array and the spelling of its numbers.

The cases include scalars, empty tensors, large dimensions, hundreds of dimensions, and valid spellings that
resemble invalid ones.
"""

from __future__ import annotations

from math import prod

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import PLACES, powers, rare, three_tensors
from safetensors_reference.rules.dtypes import DTYPE_BITS

MAX = 2**64 - 1
SCALARS = ("U8", "F16", "F32", "C64")
LARGE = powers("2p48-plus-1", "2p53", "2p53-plus-1", "2p63-less-1", "2p63", "2p64-less-1")
TOO_LARGE = "SHP_OVERFLOW ENT_BAD_INTEGER"
ONES = ",".join(["1"] * 300)
SPACED = " ,\t".join(["1"] * 300)


@accepts("SHP-03", over=SCALARS, ahead=rare(SCALARS))
def scalar(f: FileBuilder, value: str) -> None:
    """A scalar of dtype $value has no dimensions and one element."""
    f.tensor("w", value, [])


@accepts(
    "SHP-04",
    over={"0": [0], "0x5": [0, 5], "5x0": [5, 0], "5x0x3": [5, 0, 3], "0x0": [0, 0], "1x0": [1, 0]},
    bugs="FB-18 FB-119",
)
def zero_dimension(f: FileBuilder, value: list[int]) -> None:
    """A tensor of shape $value has no bytes, but it keeps its shape."""
    f.tensor("w", "F32", value)


@accepts("SHP-11")
def six_elements_in_many_shapes(f: FileBuilder) -> None:
    """Tensors of six elements have the shapes [6], [1, 6], [6, 1], [2, 3], [3, 2] and [1, 2, 1, 3, 1].

    The number and order of dimensions, including dimensions of 1, are properties of the tensor.
    """
    for index, shape in enumerate(([6], [1, 6], [6, 1], [2, 3], [3, 2], [1, 2, 1, 3, 1])):
        f.tensor(f"t{index}", "I16", shape)


@accepts("SHP-11")
def eight_dimensions(f: FileBuilder) -> None:
    """A tensor has eight dimensions.

    Some readers store shapes in arrays of four or five numbers.
    """
    f.tensor("w", "U8", [2, 1, 3, 1, 2, 1, 1, 2])


@accepts("SHP-10 SHP-11", importance="low")
def thirty_two_dimensions(f: FileBuilder) -> None:
    """A tensor has 32 dimensions, which is the maximum of NumPy before version 2."""
    f.tensor("w", "F32", [1] * 31 + [2])


@accepts(
    "SHP-10 SHP-11", importance="low", over={"two-in-front": [2, *[1] * 31], "sixteen-twos": [1, 2] * 16}
)
def thirty_two_dimensions_of(f: FileBuilder, value: list[int]) -> None:
    """A U8 tensor has 32 dimensions: $slug."""
    f.tensor("w", "U8", value, b"\1" * prod(value))


@chooses(
    "high-rank",
    "SHP-10",
    codes="LIM_RANK",
    importance="high",
    over=(33, 64, 65, 256, 1000, 30_000),
    bugs={"30000": "FB-202"},
)
def rank(f: FileBuilder, value: int) -> None:
    """A tensor has $value dimensions, and all except the last are 1.

    A reader that copies the shape into a fixed-size array writes past the end of the array.
    """
    f.tensor("w", "F32", [1] * (value - 1) + [2])


@accepts("SHP-08 SHP-04", importance="low", over=powers("2p31", "2p32", "2p48-less-1"))
def empty_beside(f: FileBuilder, value: int) -> None:
    """A tensor of shape [0, $value] has no bytes."""
    f.tensor("w", "F32", [0, value])


@chooses("large-dimension", "SHP-11 SHP-04", codes=TOO_LARGE, over=LARGE, bugs={"2p53-plus-1": "FB-67"})
def large_behind_zero(f: FileBuilder, value: int) -> None:
    """A tensor of shape [0, $value] is empty and has one very large dimension.

    A reader that stores numbers as doubles or as signed integers reports a different dimension.
    """
    f.tensor("w", "U8", [0, value])


@chooses("large-dimension", "SHP-11 SHP-04", codes=TOO_LARGE, over={"2p53-plus-1": 2**53 + 1, "max": MAX})
def large_before_zero(f: FileBuilder, value: int) -> None:
    """A tensor of shape [$value, 0] is empty and has one very large dimension."""
    f.tensor("w", "U8", [value, 0])


MANY = {
    "two": (f"[{ONES},2]", [2]),
    "two-between-spaces": (f"[\r\n{SPACED}\n,\t 2 ]", [2]),
    "zero": (f"[{ONES},0]", [0]),
    "one-to-nine": (f"[{ONES},0,1234567890,56789]", [0, 1234567890, 56789]),
}


@chooses("high-rank", "SHP-10", codes="LIM_RANK", over=MANY)
def many(f: FileBuilder, text: str, last: list[int]) -> None:
    """A shape consists of 300 ones, followed by $slug."""
    shape = [1] * 300 + last
    size = 0 if 0 in shape else 2 if 2 in shape else 1
    f.tensor("w", "U8", shape, bytes(range(size)), fields={"shape": text})


@rejects(
    "SHP-01",
    "SHP_BAD_TYPE ENT_BAD_INTEGER",
    over={
        "text": f'[{ONES},"1"]',
        "null": f"[{ONES},null]",
        "true": f"[{ONES},true]",
        "array": f"[{ONES},[1]]",
        "object": f"[{ONES},{{}}]",
    },
)
@rejects("SHP-01", "ENT_BAD_INTEGER", over={"minus-one": f"[{ONES},0,-1]", "half": f"[{ONES},0.5]"})
@rejects(
    "SHP-02",
    "ENT_BAD_INTEGER",
    over={"minus-zero": f"[{ONES},-0]", "one-point-zero": f"[{ONES},0,1.0]", "exponent": f"[{ONES},0,1e1]"},
)
@rejects(
    "SHP-07",
    "ENT_BAD_INTEGER SHP_OVERFLOW",
    over={"2p64": f"[{ONES},0,{2**64}]", "21-digits": f"[{ONES},0,1{'0' * 20}]"},
)
@rejects(
    "HDR-07",
    "HDR_NOT_JSON ENT_BAD_INTEGER SHP_BAD_TYPE",
    over={
        "leading-zero": f"[{ONES},0,01]",
        "two-zeros": f"[{ONES},00]",
        "no-comma": f"[{ONES},0 1]",
        "no-commas-at-all": f"[{SPACED.replace(',', ' ')} 0]",
        "two-commas": f"[{ONES},,0]",
        "comma-at-end": f"[{ONES},0,]",
        "comma-at-start": f"[,{ONES},0]",
        "colon": f"[{ONES}:0]",
        "letter-behind-digit": f"[{ONES},0,1a]",
        "form-feed": f"[{ONES},\f0]",
        "no-break-space": f"[{ONES},\u00a00]",
        "closed-by-brace": f"[{ONES},0}}",
        "wide-digit": f"[{ONES},\uff10]",
    },
)
def many_and_a_fault(f: FileBuilder, value: str) -> None:
    """A shape contains 300 ones and something that is not a dimension: $slug."""
    f.tensor("w", "U8", [1] * 300 + [0], b"", fields={"shape": value})


def _raw(f: FileBuilder, text: str, size: int, dtype: str = "F32") -> None:
    f.tensor("w", dtype, [size * 8 // DTYPE_BITS[dtype]], fields={"shape": text})


OF_OTHER_TYPE = {
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
}


@rejects("SHP-01", "SHP_BAD_TYPE", over=OF_OTHER_TYPE)
def of_other_type(f: FileBuilder, text: str, size: int) -> None:
    """The shape is not an array of integers: $slug."""
    _raw(f, text, size)


NUMBER_SPELLED = {
    "point-zero": ("[2.0]", 8),
    "exponent-zero": ("[2e0]", 8),
    "exponent-upper-case": ("[2E0]", 8),
    "exponent-shift": ("[0.2e1]", 8),
    "half": ("[2.5]", 8),
    "minus-zero": ("[-0]", 0),
    "point-zero-in-last-place": ("[1,2.0]", 8),
}


@rejects("SHP-02", "ENT_BAD_INTEGER", ahead={"half": "SHP-01"}, over=NUMBER_SPELLED)
def number_spelled(f: FileBuilder, text: str, size: int) -> None:
    """A dimension is a number that is not written as a plain integer: $slug.

    Parsers that turn every number into a double do not notice the difference, but other parsers reject the
    number.
    """
    _raw(f, text, size)


@rejects(
    "SHP-01",
    "ENT_BAD_INTEGER",
    importance="critical",
    over={"1": ("[-1]", 4), "2": ("[-2]", 8), "1-times-2": ("[-1,-2]", 8), "2-in-last-place": ("[1,-2]", 8)},
    bugs="FB-54 FB-67 FB-117",
)
def negative(f: FileBuilder, text: str, size: int) -> None:
    """A dimension is negative: minus $slug.

    The product of two negative dimensions can match the range. A single negative dimension may act as a
    wildcard or wrap around.
    """
    _raw(f, text, size)


NUMBER_OUTSIDE_JSON = {
    "leading-zero": "[02]",
    "plus-sign": "[+2]",
    "hexadecimal": "[0x2]",
    "bare-point": "[2.]",
    "not-a-number": "[NaN]",
    "infinity": "[Infinity]",
}


@rejects("HDR-07 SHP-02", "HDR_NOT_JSON ENT_BAD_INTEGER", over=NUMBER_OUTSIDE_JSON)
def number_outside_json(f: FileBuilder, value: str) -> None:
    """A dimension has a spelling that JSON does not allow: $slug."""
    _raw(f, value, 8)


@rejects(
    "OFF-05 SHP-07",
    "ENT_BAD_INTEGER SHP_OVERFLOW OFF_SIZE_MISMATCH",
    over={
        "2p64": (str(2**64), 0),
        "2p64-plus-2": (str(2**64 + 2), 8),
        "2p128-plus-2": (str(2**128 + 2), 8),
        "60000-digits": ("1" * 60_000, 0),
    },
)
@rejects(
    "OFF-05 SHP-07 API-14",
    "ENT_BAD_INTEGER SHP_OVERFLOW OFF_SIZE_MISMATCH",
    over={"400-digits": ("1" * 400, 0)},
    bugs="FB-116",
)
def beyond_64_bits(f: FileBuilder, digits: str, size: int) -> None:
    """A dimension does not fit into 64 bits: $slug.

    Truncated to 64 bits, the dimension may match the range. Very long numbers are slow to convert.
    """
    _raw(f, f"[{digits}]", size)


HUNDREDS = "1" * 400


@rejects(
    "SHP-07 API-14",
    "ENT_BAD_INTEGER SHP_OVERFLOW",
    importance="high",
    over={"before-zero": f"[{HUNDREDS},0]", "behind-zero": f"[0,{HUNDREDS}]"},
    bugs="FB-116",
)
def hundreds_of_digits(f: FileBuilder, value: str) -> None:
    """A dimension of an empty tensor is a number of 400 digits: $slug.

    The product is zero, so only a check of the number itself finds the fault. A number of more than 308
    digits does not fit into a double, and a conversion to double raises its own error.
    """
    _raw(f, value, 0)


@rejects("SHP-07 SHP-04", "ENT_BAD_INTEGER SHP_OVERFLOW", over={"front": "{},0", "back": "0,{}"})
def beyond_64_bits_beside_zero(f: FileBuilder, value: str) -> None:
    """The shape of an empty tensor has a dimension of 2^64 at the $slug."""
    _raw(f, f"[{value.format(2**64)}]", 0)


@rejects("SHP-02", "ENT_BAD_INTEGER", importance="high")
def minus_zero_beside_escaped_minus(f: FileBuilder) -> None:
    """A dimension is written as -0, and the name of the tensor is an escaped minus sign.

    A reader that only counts minus signs finds one before decoding and one after decoding.
    """
    f.tensor("-", "U8", [0], b"", key=r'"\u002d"', fields={"shape": "[-0]"})


SPELLING = {
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
}


@rejects("SHP-02", "ENT_BAD_INTEGER", ahead={"nearly-two": "SHP-01"}, over=SPELLING)
def spelling(f: FileBuilder, text: str, size: int) -> None:
    """A dimension is a number that is valid in JSON but not in a shape: $slug.

    Converted to a double, the dimension is a whole number and fits the range, so a later check does not find
    the fault.
    """
    _raw(f, text, size, "U8")


@rejects(
    "HDR-07 SHP-02",
    "HDR_NOT_JSON ENT_BAD_INTEGER SHP_BAD_TYPE",
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
def spelling_outside_json(f: FileBuilder, text: str, size: int) -> None:
    """A dimension is not a valid JSON number: $slug."""
    _raw(f, text, size, "U8")


@rejects(
    "OFF-05 SHP-07",
    "ENT_BAD_INTEGER SHP_OVERFLOW OFF_SIZE_MISMATCH",
    over={
        "2p64-middle": (f"[2,{2**64},3]", 0),
        "2p64-last": (f"[2,{2**64}]", 0),
        "2p64-plus-1-last": (f"[2,{2**64 + 1}]", 2),
        "2p96-plus-2": (f"[{2**96 + 2}]", 2),
    },
)
def too_large(f: FileBuilder, text: str, size: int) -> None:
    """A dimension requires more than 64 bits: $slug.

    The low 64 bits of the dimension match the size of the range.
    """
    _raw(f, text, size, "U8")


MINUS = {
    "2p64-less-2": (f"[{2 - 2**64}]", 2),
    "2p32-less-2": (f"[{2 - 2**32}]", 2),
    "2p63": (f"[{-(2**63)},2]", 0),
}


@rejects("SHP-01", "ENT_BAD_INTEGER", importance="critical", over=MINUS)
def minus(f: FileBuilder, text: str, size: int) -> None:
    """A dimension is negative, and wrapping or multiplying makes it fit the range: minus $slug."""
    _raw(f, text, size, "U8")


@rejects("SHP-01", "SHP_BAD_TYPE", over=PLACES)
def null_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors is empty and has null as its shape."""
    three_tensors(f, value, usual=("U8", [4]), shape=[0], fields={"shape": "null"})


@rejects("SHP-01", "ENT_BAD_INTEGER", importance="critical", over=PLACES)
def minus_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has two negative dimensions whose product matches the range."""
    three_tensors(f, value, usual=("U8", [4]), fields={"shape": "[-2,-2]"})


@accepts("SHP-01 SHP-02")
def zeros_at_end_of_numbers(f: FileBuilder) -> None:
    """The dimensions include 10, 100, 20 and 0.

    A check for leading zeros must not reject these numbers.
    """
    f.tensor("a", "U8", [10, 100])
    f.tensor("b", "U8", [0])
    f.tensor("c", "U8", [20, 1, 10])


@accepts("HDR-08 SHP-01")
def spread_over_lines(f: FileBuilder) -> None:
    """Each number of a shape is on its own line."""
    f.tensor("w", "U8", [2, 3], fields={"shape": "[\n  2,\n  3\n]"})


@accepts("SHP-04 SHP-08 SHP-07")
def fifteen_digits(f: FileBuilder) -> None:
    """The shape [281474976710655, 0] has the largest dimension that no known reader rejects."""
    f.tensor("w", "F32", [2**48 - 1, 0])


@accepts("SHP-04 SHP-05", over={"u8": ("U8", [0, 2**30, 2**29]), "f32": ("F32", [2**20, 0, 2**30])})
def large_product_beside_zero(f: FileBuilder, dtype: str, shape: list[int]) -> None:
    """The other dimensions of an empty tensor have a large product that fits into 64 bits: $slug."""
    f.tensor("w", dtype, shape)


@rejects("OFF-05 SHP-11", "OFF_SIZE_MISMATCH", over=(4, 8))
def dimension_behind_ones(f: FileBuilder, value: int) -> None:
    """A dimension of 2 follows $value other dimensions, and the range fits only without that last dimension.

    To a reader that stores only a fixed number of dimensions, the shape and the range seem to agree.
    """
    f.tensor("w", "U8", [3] + [1] * (value - 1) + [2], pattern("w", 3))
