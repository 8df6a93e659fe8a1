"""Writers with one mistake each: dtypes, shapes, values and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...writing import GivenTensor
from ..correct.reader import WIDTHS
from ..correct.writer import Row, SmallWriter, variants

FRAMEWORK = {"F32": "float32", "F64": "float64", "F16": "float16", "BOOL": "bool", "U8": "uint8"}


class FrameworkDtypes(SmallWriter):
    """Writes the dtype names of a framework."""

    def dtype(self, tensor: GivenTensor) -> str:
        code = super().dtype(tensor)
        return FRAMEWORK.get(code, code.lower())


class PairsAsElements(SmallWriter):
    """Writes the last dimension of packed elements in bytes."""

    def shape(self, row: Row) -> list[int]:
        shape = list(row.shape)
        if WIDTHS[row.dtype] < 8 and shape:
            shape[-1] = shape[-1] * WIDTHS[row.dtype] // 8
        return shape


class ScalarsAsVectors(SmallWriter):
    """Writes the shape of a scalar as one dimension of length one."""

    def shape(self, row: Row) -> list[int]:
        return list(row.shape) or [1]


class ColumnMajorShape(SmallWriter):
    """Writes the dimensions in the order of Fortran."""

    def shape(self, row: Row) -> list[int]:
        return list(row.shape)[::-1]


class AtMostSixDimensions(SmallWriter):
    """Puts the dimensions behind the sixth together."""

    def shape(self, row: Row) -> list[int]:
        shape, product = list(row.shape), 1
        for dim in shape[5:]:
            product *= dim
        return [*shape[:5], product] if len(shape) > 6 else shape


class QuietNans(SmallWriter):
    """Sets the bit that makes a NaN quiet, as a conversion does, and clears the sign of a zero."""

    BITS: Mapping[str, tuple[int, int, int]] = {
        "F16": (2, 0x7C00, 0x200),
        "BF16": (2, 0x7F80, 0x40),
        "F32": (4, 0x7F800000, 0x400000),
        "C64": (4, 0x7F800000, 0x400000),
        "F64": (8, 0x7FF0000000000000, 0x8000000000000),
    }

    def data(self, tensor: GivenTensor) -> bytes:
        data = super().data(tensor)
        if tensor.dtype not in self.BITS:
            return data
        width, infinity, quiet = self.BITS[tensor.dtype]
        out = b""
        for at in range(0, len(data), width):
            word = int.from_bytes(data[at : at + width], "little")
            magnitude = word & ((1 << (8 * width - 1)) - 1)
            if magnitude > infinity:
                word |= quiet
            elif not magnitude & infinity:
                word = 0  # zeros and subnormals
            out += word.to_bytes(width, "little")
        return out


class IntegersThroughDoubles(SmallWriter):
    """Passes integers of eight bytes and eight-bit floats through a double."""

    def data(self, tensor: GivenTensor) -> bytes:
        data = super().data(tensor)
        if tensor.dtype.startswith("F8_E"):
            return data.replace(b"\xff", b"\x7f").replace(b"\x80", b"\0")
        if tensor.dtype not in ("I64", "U64"):
            return data
        signed = tensor.dtype == "I64"
        words = [int.from_bytes(data[i : i + 8], "little", signed=signed) for i in range(0, len(data), 8)]
        low, high = (-(2**63), 2**63 - 1) if signed else (0, 2**64 - 1)
        return b"".join(
            min(max(int(float(w)), low), high).to_bytes(8, "little", signed=signed) for w in words
        )


class UnsupportedAsBytes(SmallWriter):
    """Writes elements without a dtype as bytes."""

    def dtype(self, tensor: GivenTensor) -> str:
        return tensor.dtype if tensor.dtype in WIDTHS else "U8"

    def data(self, tensor: GivenTensor) -> bytes:
        return super().data(tensor) if tensor.dtype in WIDTHS else bytes(tensor.storage[: tensor.shape[0]])


class SizeUnchecked(SmallWriter):
    """Writes the buffer that it is given, whatever size the shape needs."""

    def size(self, tensor: GivenTensor) -> int:
        return -(-self.bits(tensor) // 8)


class SumOfSizesChecked(SmallWriter):
    """Holds the sum of all buffers against the sum of all shapes."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        given = sum(-(-self.bits(t) // 8) if t.nbytes is None else t.nbytes for t in tensors)
        if given != sum(-(-self.bits(t) // 8) for t in tensors):
            raise ValueError("size")
        return super().rows(tensors)

    def size(self, tensor: GivenTensor) -> int:
        return -(-self.bits(tensor) // 8)

    def dtype(self, tensor: GivenTensor) -> str:
        return super().dtype(tensor)


class WrapsAt(SmallWriter):
    """Base of those that compute sizes in a machine word."""

    WORD = 64

    def bits(self, tensor: GivenTensor) -> int:
        return super().bits(tensor) % (1 << self.WORD)


class WrapsAtSixtyFourBits(WrapsAt):
    """Computes the size in bits in 64 bits."""


class WrapsAtSixtyFourBitsOfBytes(WrapsAt):
    """Computes the size in bytes in 64 bits."""

    WORD = 67


class WrapsAtThirtyTwoBits(WrapsAt):
    """Computes the size in bytes in 32 bits."""

    WORD = 35


VARIANTS = variants(globals(), __name__)
