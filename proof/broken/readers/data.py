"""Broken readers with a fault in the bytes of a tensor (DAT)."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from proof.planted import Planted

from ..correct.json import Pairs, refusing_result
from ..correct.reader import READER, WIDTHS, SmallReader, Tensor
from ..variant import Panic, named, reading

FLOATS = {"F16": ("e", 5, 10), "BF16": ("", 8, 7), "F32": ("f", 8, 23), "F64": ("d", 11, 52)}
"""Exponent and fraction bits of the IEEE types."""


def swapped(tensor: Tensor, data: bytes) -> bytes:
    """Reverse the bytes of every element."""
    width = WIDTHS[tensor.dtype] // 8 or 1
    if tensor.dtype == "C64":
        width = 4
    return b"".join(data[i : i + width][::-1] for i in range(0, len(data), width))


def _swapped(*codes: str) -> Callable[[Tensor, bytes], bytes]:
    return lambda tensor, data: swapped(tensor, data) if tensor.dtype in codes else data


def _each_float(change: Callable[[int, int, int], int], *codes: str) -> Callable[[Tensor, bytes], bytes]:
    def values(tensor: Tensor, data: bytes) -> bytes:
        kind = "F32" if tensor.dtype == "C64" else tensor.dtype
        if kind not in codes:
            return data
        _, exponent, fraction = FLOATS[kind]
        width = (1 + exponent + fraction) // 8
        words = (int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width))
        return b"".join(change(word, exponent, fraction).to_bytes(width, "little") for word in words)

    return values


def _is_nan(word: int, exponent: int, fraction: int) -> bool:
    top = (1 << exponent) - 1
    return word >> fraction & top == top and word & ((1 << fraction) - 1) != 0


def _canonical_nan(word: int, exponent: int, fraction: int) -> int:
    return ((2 << exponent) - 1) << (fraction - 1) if _is_nan(word, exponent, fraction) else word


def _quiet_nan(word: int, exponent: int, fraction: int) -> int:
    return word | 1 << (fraction - 1) if _is_nan(word, exponent, fraction) else word


def _flushed(word: int, exponent: int, fraction: int) -> int:
    sign = 1 << exponent + fraction
    return word & sign if word >> fraction & ((1 << exponent) - 1) == 0 else word


def _no_infinity(word: int, exponent: int, fraction: int) -> int:
    top = ((1 << exponent) - 1) << fraction
    return (
        word - 1 if word & (2 * (1 << exponent + fraction) - 1) & ~(1 << exponent + fraction) == top else word
    )


CHANGES: tuple[tuple[str, str, Callable[[int, int, int], int]], ...] = (
    ("nan-canonical", "Replaces every NaN in {} with the same NaN.", _canonical_nan),
    ("nan-quiet", "Makes signalling NaNs in {} quiet.", _quiet_nan),
    ("subnormals-flushed", "Replaces subnormal numbers in {} with zero.", _flushed),
    ("minus-zero-lost", "Drops the sign of zeros in {}.",
     lambda word, exponent, fraction: 0 if word == 1 << exponent + fraction else word),
    ("infinity-clamped", "Replaces infinity in {} with the largest number.", _no_infinity),
)  # fmt: skip


def _bool(change: Callable[[int], int]) -> SmallReader:
    def values(tensor: Tensor, data: bytes) -> bytes:
        return bytes(map(change, data)) if tensor.dtype == "BOOL" else data

    return replace(READER, values=values)


def _crash_on_bool(byte: int) -> int:
    if byte > 1:
        raise Panic("invalid bool")
    return byte


def _column_major(tensor: Tensor, data: bytes) -> bytes:
    width = WIDTHS[tensor.dtype] // 8
    if len(tensor.shape) != 2 or not data or not width:
        return data
    rows, columns = tensor.shape
    cells = [data[i : i + width] for i in range(0, len(data), width)]
    return b"".join(cells[row * columns + column] for column in range(columns) for row in range(rows))


def _padded_rows(tensor: Tensor, data: bytes) -> bytes:
    if len(tensor.shape) != 2 or not data:
        return data
    step = (tensor.shape[1] * WIDTHS[tensor.dtype] + 7) // 8
    stride = -(-step // 4) * 4
    return b"".join(
        data[row * stride : row * stride + step].ljust(step, b"\0") for row in range(tensor.shape[0])
    )


def _nibbles(tensor: Tensor, data: bytes) -> bytes:
    return bytes((byte >> 4 | byte << 4) & 0xFF for byte in data) if WIDTHS[tensor.dtype] == 4 else data


def _unpacked(tensor: Tensor, data: bytes) -> bytes:
    width = WIDTHS[tensor.dtype]
    if width >= 8:
        return data
    bits = int.from_bytes(data, "little")
    return bytes(bits >> i * width & ((1 << width) - 1) for i in range(math.prod(tensor.shape)))


def _parts_swapped(tensor: Tensor, data: bytes) -> bytes:
    if tensor.dtype != "C64":
        return data
    return b"".join(data[i + 4 : i + 8] + data[i : i + 4] for i in range(0, len(data), 8))


def _through_half(tensor: Tensor, data: bytes) -> bytes:
    return bytes(min(byte, 127) for byte in data) if tensor.dtype in ("U8", "F8_E8M0") else data


def _large_integers(tensor: Tensor, data: bytes) -> bytes:
    if tensor.dtype not in ("I64", "U64"):
        return data
    code = "<q" if tensor.dtype == "I64" else "<Q"
    words = [int(float(word)) for (word,) in struct.iter_unpack(code, data)]
    return b"".join((word % 2**64).to_bytes(8, "little") for word in words)


class DataOfFirst(SmallReader):
    """Returns the bytes of the first tensor for every tensor."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        return super().described(replace(tensor, begin=0, end=tensor.end - tensor.begin), data)


class DataInHeaderOrder(SmallReader):
    """Divides the data among the tensors in the order of the header.

    It uses the size of each tensor and ignores the offsets.
    """

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        tensors, metadata = super().entries(members)
        place, moved = 0, []
        for tensor in tensors:
            end = place + tensor.end - tensor.begin
            moved.append(replace(tensor, begin=place, end=end))
            place = end
        return moved, metadata


class DataAsHeader(SmallReader):
    """Treats data that looks like a header as the header.

    If there are several, it uses the last.
    """

    def content(self, file: bytes) -> dict[str, Any]:
        last = [m.start() for m in re.finditer(rb"(?=[^\0].\0{6}\{)", file, re.DOTALL)][-1:]
        return super().content(file[last[0] :] if last else file)


def _floats() -> Iterator[Planted]:
    for name, about, change in CHANGES:
        for code in FLOATS:
            yield reading(f"data-{name}-{code.lower()}", about.format(code),
                          replace(READER, values=_each_float(change, code)))  # fmt: skip


SWAPPABLE = ("I16", "U16", "F16", "BF16", "I32", "U32", "F32", "I64", "U64", "F64", "C64")
VALUES: tuple[tuple[str, str, Callable[[Tensor, bytes], bytes]], ...] = (
    *(
        (f"{code.lower()}-swapped", f"Returns the bytes of {code} elements in reverse order.", _swapped(code))
        for code in SWAPPABLE
    ),
    ("column-major", "Returns matrices in column-major order.", _column_major),
    ("rows-padded", "Expects every row to begin at a multiple of four bytes.", _padded_rows),
    ("nibbles-swapped", "Swaps the two halves of packed bytes.", _nibbles),
    ("packed-unpacked", "Returns one byte for each packed element.", _unpacked),
    ("parts-swapped", "Returns the imaginary part before the real part.", _parts_swapped),
    ("seven-bits", "Clears the highest bit of every byte.",
     lambda tensor, data: bytes(byte & 0x7F for byte in data) if WIDTHS[tensor.dtype] == 8 else data),
    ("until-nul", "Ends the data at the first NUL.", lambda _tensor, data: data.split(b"\0")[0]),
    ("text-mode", "Reads the file in text mode.", lambda _tensor, data: data.replace(b"\r\n", b"\n")),
    ("f8-negative-zero", "Drops the sign of zeros in F8.",
     lambda tensor, data: data.replace(b"\x80", b"\0") if tensor.dtype.startswith("F8") else data),
    ("u8-clamped", "Clamps bytes to 127.", _through_half),
    ("i64-through-doubles", "Converts 64-bit integers to doubles and back.", _large_integers),
)  # fmt: skip


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    reading("data-other-format-refused", "Rejects data that contains another format.",
            READER.changed(split=refusing_result(
                lambda found: b"%PDF" in found[1] or b"PK\x03\x04" in found[1]))),
    *_floats(),
    *(reading(f"data-{name}", about, replace(READER, values=change)) for name, about, change in VALUES),
    reading("data-bool-lowest-bit", "Uses only the lowest bit of a BOOL element.",
            _bool(lambda byte: byte & 1)),
    reading("data-bool-all-ones", "Returns 255 for true.", _bool(lambda byte: 255 if byte else 0)),
    reading("data-bool-crash", "Crashes on BOOL bytes other than 0 and 1.", _bool(_crash_on_bool)),
)  # fmt: skip
