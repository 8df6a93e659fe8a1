"""Shapes: the product of the dimensions compared with the range, including integer overflow.

Sizes are just below, at and above the limits of integer types. Some shapes also contain a zero.
"""

from __future__ import annotations

from safetensors_corpus.author.case import ACCEPT, chooses, reject, rejects
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import PLACES, sized, three_tensors

MAX = 2**64 - 1
OVERFLOW = reject("SHP_OVERFLOW")
WRAPPED = "SHP_OVERFLOW OFF_SIZE_MISMATCH"


@chooses(
    "zero-dim-overflow",
    "SHP-06",
    codes="SHP_OVERFLOW",
    over={
        "0-2p32-2p33": [0, 2**32, 2**33],
        "0-2p33-2p32": [0, 2**33, 2**32],
        "2p32-0-2p33": [2**32, 0, 2**33],
        "2p33-0-2p32": [2**33, 0, 2**32],
    },
)
def overflow_behind_zero(f: FileBuilder, value: list[int]) -> None:
    """The dimensions overflow, but a zero comes before the overflow: $slug.

    A multiplication from left to right reaches the zero first. The order of the dimensions should not matter.
    """
    f.tensor("w", "U8", value)


@chooses(
    "zero-dim-overflow",
    "SHP-06",
    options={"reject": OVERFLOW, "accept": ACCEPT, "by-position": OVERFLOW},
    over={"2p32-2p33-0": [2**32, 2**33, 0], "2p33-2p32-0": [2**33, 2**32, 0]},
)
def overflow_before_zero(f: FileBuilder, value: list[int]) -> None:
    """The product of the dimensions overflows before a zero dimension is reached: $slug.

    A multiplication from left to right overflows, although the product is zero.
    """
    f.tensor("w", "U8", value)


@chooses(
    "zero-dim-overflow", "SHP-06", options={"reject": OVERFLOW, "accept": ACCEPT, "by-position": OVERFLOW}
)
def overflow_before_zero_beside_tensor(f: FileBuilder) -> None:
    """The product of the second dimensions overflows before a zero dimension is reached."""
    f.tensor("v", "F32", [2])
    f.tensor("w", "F32", [2**33, 2**32, 0])


@rejects("SHP-03 OFF-05", "OFF_SIZE_MISMATCH", over=(0, 2, 8))
def scalar_with_bytes(f: FileBuilder, value: int) -> None:
    """The range of an F32 scalar has $value bytes.

    The product of no dimensions is one. A reader that computes zero elements, or does not check the size,
    accepts this file.
    """
    sized(f, "F32", [], value)


EMPTY_OR_NOT = {
    "0-with-4-bytes": ("F32", [0], 4),
    "2x0x2-with-16-bytes": ("F32", [2, 0, 2], 16),
    "1-with-0-bytes": ("F32", [1], 0),
    "0-with-1-byte": ("U8", [0], 1),
}


@rejects("SHP-04 OFF-05", "OFF_SIZE_MISMATCH", over=EMPTY_OR_NOT)
def empty_or_not(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The shape and the range disagree about whether the tensor is empty: $slug."""
    sized(f, dtype, shape, size)


@rejects("SHP-05", WRAPPED, bugs="FB-05 FB-54 FB-67", issue="leejet/stable-diffusion.cpp#1876")
def product_wraps_to_zero(f: FileBuilder) -> None:
    """The dimensions 2^32 and 2^32 wrap around to zero elements, and the range is empty.

    The wrapped product and the range agree. A reader that does not detect the overflow returns a tensor that
    claims 2^64 elements but has no bytes.
    """
    sized(f, "F32", [2**32, 2**32], 0)


@rejects("SHP-05", WRAPPED, bugs="FB-05", over=PLACES)
def product_wraps_to_zero_among_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has dimensions that wrap around to zero and an empty range."""
    three_tensors(f, value, shape=[2**32, 2**32], data=b"")


@rejects(
    "OFF-04 SHP-05",
    "OFF_OUT_OF_BOUNDS SHP_OVERFLOW OFF_SIZE_MISMATCH OFF_HOLE",
    issue="google-ai-edge/LiteRT#9255",
    bugs="FB-201",
)
def product_wraps_to_zero_far_range(f: FileBuilder) -> None:
    """The dimensions wrap around to zero elements, and the range is far past the end of the file.

    A reader that skips empty tensors does not check the bounds either.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2**32, 2**32], b"", begin=2**40, end=2**40 + 64)


@rejects(
    "SHP-05", WRAPPED, bugs="FB-05 FB-217", over={"4-from-2p63-plus-2-and-2": ("F32", [2**63 + 2, 2], 16)}
)
@rejects(
    "SHP-05",
    WRAPPED,
    bugs="FB-05",
    over={
        "0-from-rank-4": ("U8", [2**16] * 4, 0),
        "0-from-2p63-and-2": ("U8", [2**63, 2], 0),
        "1-from-inverse-of-3": ("F32", [3, pow(3, -1, 2**64)], 4),
        "1-from-max-and-max": ("F32", [MAX, MAX], 4),
        "4-from-three": ("F32", [4194305, 4194305, 211106198978564], 16),
    },
)
def product_wraps_to(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The number of elements wraps around to the size of the range: $slug."""
    sized(f, dtype, shape, size)


BYTES_WRAP_TO = {
    "0-f32": ("F32", [2**62], 0),
    "4-f32": ("F32", [2**62 + 1], 4),
    "0-u16": ("U16", [2**63], 0),
    "0-f64": ("F64", [2**31, 2**30], 0),
    "8-i64": ("I64", [2**61 + 1], 8),
}


@rejects("SHP-05", WRAPPED, bugs="FB-05", over=BYTES_WRAP_TO)
def bytes_wrap_to(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The element count fits into 64 bits, but the byte count wraps around to the range size: $slug."""
    sized(f, dtype, shape, size)


BITS_WRAP_TO = {
    "0-u8": ("U8", [2**61], 0),
    "1-u8": ("U8", [2**61 + 1], 1),
    "0-f32": ("F32", [2**59], 0),
    "0-f4": ("F4", [2**62], 0),
    "1-f4": ("F4", [2**62 + 2], 1),
    "0-f6-e2m3": ("F6_E2M3", [2**63], 0),
}


@rejects("SHP-05 SHP-09", WRAPPED, over=BITS_WRAP_TO)
def bits_wrap_to(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The byte count fits into 64 bits, but the bit count wraps around to the range size: $slug.

    Because of packed dtypes, some readers count bits, so their counts overflow at an eighth of the size.
    """
    sized(f, dtype, shape, size)


PRODUCT_NEAR = {
    "2p63-less-2p31": [2**31, 2**32 - 1],
    "2p63-less-1": [7 * 7 * 73 * 127, 337 * 92737 * 649657],
    "2p63": [2**32, 2**31],
    "2p64-less-1": [2**32 - 1, 2**32 + 1],
}


@rejects("SHP-05 OFF-05", WRAPPED, over=PRODUCT_NEAR)
def product_near(f: FileBuilder, value: list[int]) -> None:
    """The number of U8 elements is $slug, but there are only eight bytes of data.

    The count fits into an unsigned 64-bit integer. As a signed integer, the count is negative or the largest
    possible.
    """
    sized(f, "U8", value, 8)


@rejects(
    "OFF-05 SHP-05",
    "OFF_SIZE_MISMATCH SHP_OVERFLOW",
    over={
        "0-from-2p16-and-2p16": ("U8", [2**16, 2**16], 0),
        "0-from-2p30-f32": ("F32", [2**30], 0),
        "2-from-2p32-plus-2": ("F32", [2**32 + 2], 8),
        "8-from-2p31-plus-4-and-2": ("U8", [2**31 + 4, 2], 8),
    },
)
def wraps_32_bits_to(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The size matches the range only after truncation to 32 bits: $slug."""
    sized(f, dtype, shape, size)


@rejects("OFF-05 SHP-05", "OFF_SIZE_MISMATCH SHP_OVERFLOW")
def largest_without_overflow(f: FileBuilder) -> None:
    """A U8 tensor has 2^61 - 1 elements, but there are only eight bytes of data.

    Not even the number of bits overflows. No machine has enough memory for the tensor, so a reader must
    compare the shape with the range before it allocates memory.
    """
    sized(f, "U8", [2**61 - 1], 8)


BYTES_NEAR = {
    "2p63-less-8": ("F64", [2**60 - 1]),
    "2p63": ("F32", [2**61]),
    "2p64-less-8": ("F64", [2**61 - 1]),
    "2p64-less-2": ("U16", [2**63 - 1]),
    "2p63-packed": ("F4", [2**32, 2**32]),
}


@rejects("SHP-05 OFF-05", WRAPPED, over=BYTES_NEAR)
def bytes_near(f: FileBuilder, dtype: str, shape: list[int]) -> None:
    """A tensor requires this number of bytes, but the file contains eight bytes of data: $slug.

    As a signed number, the size may be negative, which makes every comparison with it wrong.
    """
    sized(f, dtype, shape, 8)


BITS_NEAR = {
    "2p63-u8": ("U8", [2**60]),
    "2p63-f4": ("F4", [2**61]),
    "three-quarters-of-2p64-f6": ("F6_E3M2", [2**60, 2]),
}


@rejects("OFF-05 SHP-05", "OFF_SIZE_MISMATCH SHP_OVERFLOW", over=BITS_NEAR)
def bits_near(f: FileBuilder, dtype: str, shape: list[int]) -> None:
    """A tensor requires about this number of bits, but the file contains eight bytes of data: $slug."""
    sized(f, dtype, shape, 8)


@rejects("SHP-05", WRAPPED, over=PLACES)
def product_wraps_to_size_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors has 2^64 + 2 elements and a range of two bytes.

    Truncated to 64 bits, the product equals the size of the range, so every bounds check passes.
    """
    three_tensors(f, value, usual=("U8", [2]), shape=[2**63 + 1, 2], size=2)


@rejects("SHP-05", WRAPPED, over={"front": [2, 2**63 + 1], "back": [2**63 + 1, 2]})
def product_wraps_to_two_and_back(f: FileBuilder, value: list[int]) -> None:
    """The product of the first two dimensions wraps around to two; position of the large dimension: $slug.

    The third dimension is 3. A reader that checks only the last multiplication sees two times three.
    """
    f.tensor("w", "U8", [*value, 3], pattern("w", 6))


@rejects("SHP-05", WRAPPED)
def product_wraps_twice(f: FileBuilder) -> None:
    """The product exceeds 2^64 twice and ends at four.

    The wrapped product grows again after each wrap, so comparing successive products does not show the
    overflow.
    """
    f.tensor("w", "U8", [2**63 + 1, 2, 2**63 + 1, 2], pattern("w", 4))


@rejects("SHP-04 SHP-06 OFF-05", "SHP_OVERFLOW OFF_SIZE_MISMATCH", over={"one-byte": 1, "eight-bytes": 8})
def zero_and_overflow_over_data(f: FileBuilder, value: int) -> None:
    """A zero dimension precedes other dimensions that overflow, and the range is not empty ($slug).

    A reader may treat the tensor as empty or reject the overflow. In either case, the tensor cannot contain
    data.
    """
    f.tensor("w", "U8", [0, 2**32, 2**33], data=bytes(range(1, value + 1)))
