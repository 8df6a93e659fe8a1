"""Data: byte order, element order and bit-exact values, including the extreme values of each dtype."""

from __future__ import annotations

import struct

from safetensors_corpus.author.case import accepts, chooses
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import PLACES, rare
from safetensors_reference.rules.dtypes import DTYPE_BITS

KNOWN: dict[str, tuple[str, tuple[int | float, ...]]] = {
    "BOOL": ("BBBB", (1, 0, 0, 1)),
    "U8": ("BBBB", (0, 1, 200, 255)),
    "I8": ("bbbb", (0, 1, -2, -128)),
    "U16": ("HHHH", (0, 1, 0x1234, 65535)),
    "I16": ("hhhh", (0, 1, -2, -32768)),
    "F16": ("eeee", (1.0, -2.0, 0.5, 65504.0)),
    "BF16": ("HHHH", (0x3F80, 0xC000, 0x3F00, 0x4049)),
    "U32": ("IIII", (0, 1, 0x12345678, 2**32 - 1)),
    "I32": ("iiii", (0, 1, -2, -(2**31))),
    "F32": ("ffff", (1.0, -2.0, 0.5, 3.140625)),
    "C64": ("ffffffff", (1.0, 2.0, -3.0, 4.0, 5.0, -6.0, 0.0, 7.5)),
    "F64": ("dddd", (1.0, -2.0, 0.5, 3.141592653589793)),
    "U64": ("QQQQ", (0, 1, 0x123456789ABCDEF0, 2**64 - 1)),
    "I64": ("qqqq", (0, 1, -2, -(2**63))),
}
"""dtype -> struct codes and four values; the values for BF16 are the bit patterns of 1, -2, 0.5 and 3.140625.
"""
FLOATS = ("F16", "BF16", "F32", "F64")
PARTS = {"F16": (5, 10), "BF16": (8, 7), "F32": (8, 23), "F64": (11, 52)}
"""dtype -> widths of the exponent and the fraction in bits."""


def _bits(f: FileBuilder, dtype: str, values: list[tuple[int, int, int]]) -> None:
    """Add a float tensor from bit fields (sign, exponent, fraction). A value of -1 sets all bits of the
    field.
    """
    exponent_bits, fraction_bits = PARTS[dtype]
    size = (1 + exponent_bits + fraction_bits) // 8
    data = b""
    for sign, exponent, fraction in values:
        high = sign << exponent_bits | exponent & (1 << exponent_bits) - 1
        data += (high << fraction_bits | fraction & (1 << fraction_bits) - 1).to_bytes(size, "little")
    f.tensor("w", dtype, [len(values)], data)


@accepts(
    "DAT-01 DAT-06",
    importance="high",
    over=list(KNOWN),
    ahead=rare(list(KNOWN)),
    bugs=dict.fromkeys(("i16", "u16", "i64", "u64"), "FB-66") | {"i32": "FB-83 FB-221", "u32": "FB-221"},
)
def known_values(f: FileBuilder, value: str) -> None:
    """A tensor has four known $value elements, each stored with its least significant byte first.

    No element reads the same in both byte orders, so the case detects swapped bytes.
    """
    codes, numbers = KNOWN[value]
    f.tensor("w", value, [4], struct.pack("<" + codes, *numbers))


@accepts("DTY-08 DAT-01")
def complex_parts(f: FileBuilder) -> None:
    """The real part of the complex number 1+2i is stored before its imaginary part."""
    f.tensor("w", "C64", [1], struct.pack("<ff", 1.0, 2.0))


@accepts("DTY-14 DAT-01", importance="high", bugs="FB-127")
def u16_beside_bf16(f: FileBuilder) -> None:
    """Two tensors contain the same bytes, once as U16 and once as BF16.

    Frameworks that lack one of these dtypes have stored its tensors as the other dtype. Reading must preserve
    the dtype.
    """
    data = struct.pack("<HHH", 0x3F80, 0x4000, 0xBF80)
    f.tensor("a", "U16", [3], data)
    f.tensor("b", "BF16", [3], data)


@accepts("DAT-02 DAT-03", importance="high", over={"i32": ("I32", "i"), "f64": ("F64", "d")})
def row_major(f: FileBuilder, dtype: str, code: str) -> None:
    """A tensor of dtype $slug and shape [2, 3, 4] contains the numbers 0 to 23 in row-major order.

    The three dimensions differ, so the case detects any swap of axes.
    """
    f.tensor("w", dtype, [2, 3, 4], struct.pack(f"<24{code}", *range(24)))


@accepts("DAT-03 DAT-02")
def rows_without_padding(f: FileBuilder) -> None:
    """Five rows of three bytes are stored without gaps.

    Image and graphics code often aligns rows to four bytes.
    """
    f.tensor("w", "U8", [5, 3], bytes(range(1, 16)))


@accepts("DAT-04", importance="high", over=FLOATS)
def nan_payloads(f: FileBuilder, value: str) -> None:
    """A tensor contains quiet and signalling $value NaNs with payloads and both signs.

    Passing a NaN through a floating-point register, or converting it to another width, may change its bits.
    """
    top = 1 << (PARTS[value][1] - 1)
    _bits(f, value, [(0, -1, top), (1, -1, top), (0, -1, top | 5), (0, -1, 1), (1, -1, 3), (1, -1, -1)])


@accepts("DAT-04", over=FLOATS)
def infinities_and_zeros(f: FileBuilder, value: str) -> None:
    """A tensor contains infinity and zero in $value, each with both signs."""
    _bits(f, value, [(0, -1, 0), (1, -1, 0), (0, 0, 0), (1, 0, 0)])


@accepts("DAT-04", over=FLOATS)
def subnormals(f: FileBuilder, value: str) -> None:
    """A tensor contains the smallest and largest subnormal $value numbers and the smallest normal number.

    Code compiled with fast-math options flushes subnormal numbers to zero.
    """
    _bits(f, value, [(0, 0, 1), (1, 0, 1), (0, 0, -1), (1, 0, -1), (0, 1, 0)])


_SPECIAL = [(0, -1, 0), (1, -1, 0), (0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1), (0, 0, -1), (1, 0, -1)]
"""Infinities, zeros, and the smallest and largest subnormal numbers, each with both signs."""


@accepts("DAT-04", over=FLOATS)
def special_values_in_last_of_three(f: FileBuilder, value: str) -> None:
    """The last of three tensors contains $value infinities, zeros and subnormal numbers."""
    f.tensor("a", "U8", [4])
    f.tensor("b", "F32", [3])
    _bits(f, value, _SPECIAL)


@accepts("DAT-04", over=FLOATS)
def special_values_among_others(f: FileBuilder, value: str) -> None:
    """The first of two tensors mixes $value infinities, zeros, subnormal and normal numbers."""
    _bits(f, value, [(0, 1, 0), *_SPECIAL, (0, 1, 1)])
    f.tensor("a", "F32", [3])


@accepts("DTY-08 DAT-04")
def complex_nan(f: FileBuilder) -> None:
    """In each of three complex numbers, one part is NaN, infinity or negative zero."""
    words = (0x7FA00001, 0x3F800000, 0x7F800000, 0x80000000, 0x80000000, 0xFFC00005)
    f.tensor("w", "C64", [3], struct.pack("<6I", *words))


BYTES = [code for code, bits in DTYPE_BITS.items() if bits <= 8 and code not in ("BOOL", "U8")]


@accepts("DAT-06 DAT-04", over=BYTES, ahead=rare(BYTES))
def every_byte(f: FileBuilder, value: str) -> None:
    """A $value tensor contains all 256 byte values in order, then the first 32 in reverse."""
    f.tensor("w", value, [(256 + 32) * 8 // DTYPE_BITS[value]], bytes(range(256)) + bytes(range(31, -1, -1)))


@accepts("DAT-06", over={"zeros": 0, "ones": 255})
def one_byte_value(f: FileBuilder, value: int) -> None:
    """Every byte of a tensor is $value."""
    f.tensor("w", "F32", [16], bytes([value]) * 64)


@accepts("DAT-06 FRM-01")
def looks_like_header(f: FileBuilder) -> None:
    """The data begins with another length prefix and header.

    Everything after the first header is data. A reader that searches for braces finds what looks like a
    second file.
    """
    inner = FileBuilder()
    inner.tensor("inner", "F32", [2])
    data = inner.render()
    f.tensor("outer", "U8", [len(data)], data)


@accepts("DAT-06", importance="high")
def each_tensor_its_own_bytes(f: FileBuilder) -> None:
    """Twelve tensors of equal size are stored in an order that differs from the order of their names."""
    for index in range(12):
        name = f"layer.{index}.weight"
        f.tensor(name, "F16", [2, 3], pattern(name, 12))


BOOL_BYTES = {
    "2": b"\x00\x01\x02\x01",
    "255": b"\x00\x01\xff\x01",
    "128": b"\x80\x01\x00\x01",
    "all-values": bytes(range(256)),
}


@chooses("bool-bytes", "DAT-05", codes="UNCLASSIFIED", importance="high", over=BOOL_BYTES)
def bool_bytes(f: FileBuilder, value: bytes) -> None:
    """BOOL elements are stored as bytes other than 0 and 1: $slug.

    In some languages, a boolean has only two valid bit patterns, so a reader must not create a boolean from
    any other byte.
    """
    f.tensor("w", "BOOL", [len(value)], value, views={"normalise": bytes(min(b, 1) for b in value)})


@accepts("DAT-04", importance="high", over=FLOATS)
def nan_with_each_bit(f: FileBuilder, dtype: str) -> None:
    """For each bit of the fraction, a tensor has a NaN of each sign with only that bit set: $slug.

    Converting a NaN to a quiet or canonical NaN clears that bit.
    """
    _bits(f, dtype, [(sign, -1, 1 << bit) for sign in (0, 1) for bit in range(PARTS[dtype][1])])


@accepts("DAT-04", over=FLOATS)
def largest_and_smallest(f: FileBuilder, dtype: str) -> None:
    """A tensor has the largest and smallest normal values and the values next to 1, with both signs: $slug.

    A conversion through a narrower type turns the largest value into infinity and the smallest into zero.
    """
    exponent, fraction = PARTS[dtype]
    bias, full = (1 << (exponent - 1)) - 1, (1 << fraction) - 1
    rows = [((1 << exponent) - 2, full), (1, 0), (bias, 1), (bias - 1, full)]
    _bits(f, dtype, [(sign, e, m) for sign in (0, 1) for e, m in rows])


@accepts("DAT-04", over=("F16", "BF16"))
def every_exponent(f: FileBuilder, dtype: str) -> None:
    """A tensor has one value for each exponent and sign, including the reserved exponents: $slug."""
    _bits(f, dtype, [(sign, e, 1) for sign in (0, 1) for e in range(1 << PARTS[dtype][0])])


@accepts("DAT-06 DAT-04")
def bytes_in_order(f: FileBuilder) -> None:
    """A U8 tensor contains all 256 byte values in order."""
    f.tensor("w", "U8", [256], bytes(range(256)))


INTEGERS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "i64": ("I64", "q", (2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))),
    "u64": ("U64", "Q", (2**53 + 1, 2**63, 2**64 - 1, 2**64 - 2**10 - 1)),
    "u32": ("U32", "I", (2**31, 2**24 + 1, 2**32 - 1, 2**31 - 1)),
}


@accepts("DAT-06 DAT-01", over=INTEGERS, ahead=rare(INTEGERS))
def integers_beyond_floats(f: FileBuilder, dtype: str, code: str, numbers: tuple[int, ...]) -> None:
    """A tensor contains integers that floats of the same width cannot represent: $slug."""
    f.tensor("w", dtype, [4], struct.pack(f"<4{code}", *numbers))


@accepts(
    "DTY-08 DAT-04",
    over={
        "signalling-nan": (0x7F800001, 0xFF800001),
        "nan-and-infinity": (0x7FC00000, 0xFF800000),
        "minus-zeros": (0x80000000, 0x80000000),
    },
)
def complex_parts_of(f: FileBuilder, value: tuple[int, int]) -> None:
    """A complex number has unusual parts, and a second number has the same parts swapped: $slug.

    Multiplying a complex number by one, or computing it from its parts, changes some of these values.
    """
    f.tensor("w", "C64", [2], struct.pack("<4I", *value, *value[::-1]))


@chooses("bool-bytes", "DAT-05", codes="UNCLASSIFIED", importance="high", over=PLACES)
def odd_bool_in_tensor(f: FileBuilder, value: int) -> None:
    """The $slug of three BOOL tensors contains the bytes 2 and 254."""
    for index, name in enumerate("abc"):
        odd = b"\x01\x02\xfe\x00" if index == value else b"\x01\x00\x00\x01"
        data = odd + bytes([index & 1, index >> 1])
        f.tensor(name, "BOOL", [6], data, views={"normalise": bytes(min(b, 1) for b in data)})


BLOCKS = {"4-kib": 1 << 12, "64-kib": 1 << 16, "128-kib": 1 << 17, "1-mib": 1 << 20}


def _across(f: FileBuilder, zeros: int, ones: int) -> None:
    """Add two tensors of numbers, each after a long tensor."""
    f.tensor("zeros", "U8", [zeros], bytes(zeros))
    f.tensor("a", "F32", [2])
    f.tensor("more", "U8", [ones], b"\1" * ones)
    f.tensor("b", "F32", [2])


@accepts("OFF-11 DAT-06", importance="high", over=BLOCKS)
def tensor_across_block_of_data(f: FileBuilder, value: int) -> None:
    """Two tensors cross the end of a $value-byte block of the data buffer, and one has odd offsets."""
    _across(f, value - 4, value - 7)


@accepts("OFF-11 DAT-06", importance="high", over=BLOCKS)
def tensor_across_block_of_file(f: FileBuilder, value: int) -> None:
    """Two tensors cross the end of a $value-byte block of the file, and one has odd offsets."""
    f.padding = b""
    size = 2 * value - 4 - 8
    trial = FileBuilder(padding=b"")
    _across(trial, size, value - 7)
    _across(f, size - trial.header_size, value - 7)
    f.padding = b" " * (trial.header_size - f.header_size)


@accepts("DAT-06", importance="high", over={size: BLOCKS[size] for size in ("64-kib", "1-mib")})
def tensor_of_three_blocks(f: FileBuilder, value: int) -> None:
    """A tensor with an odd offset fills more than two blocks of $value bytes, and each block differs.

    A reader that copies block by block must not exchange, repeat or omit one.
    """
    f.tensor("a", "U8", [3])
    f.tensor("w", "U8", [2 * value + 5], b"\1" * (value - 3) + b"\2" * value + b"\3" * 8)
    f.tensor("b", "F32", [2])


REMAINDERS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
WHOLE_BYTES = [code for code, bits in DTYPE_BITS.items() if bits % 8 == 0 and code != "BOOL"]


@accepts("DAT-06 DTY-05", ahead=rare(WHOLE_BYTES), over=WHOLE_BYTES)
def sizes_around_vectors(f: FileBuilder, value: str) -> None:
    """Tensors of dtype $value have element counts at or close to the width of a vector register.

    The bits of a tensor are all zeros, all ones, or mixed. Vectorised code handles the elements that do not
    fill a register separately.
    """
    for count in REMAINDERS:
        f.tensor(f"w{count}", value, [count])
    size = 17 * DTYPE_BITS[value] // 8
    f.tensor("zeros", value, [17], bytes(size))
    f.tensor("ones", value, [17], b"\xff" * size)
