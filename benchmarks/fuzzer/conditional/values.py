"""Faults in numbers, shapes, sizes and the values of elements.

Part of the conditional set; see ``conditional``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from safetensors_corpus.broken.correct.json import Number
from safetensors_corpus.broken.correct.reader import Tensor

from ..held_out.watched import Watched, WatchedGrammar, product
from .entries import PACKED
from .planting import by_grammar, by_reader

LEADING_ZEROS = re.compile(r"0+[0-9](?:[0-9]*)(?![0-9.eE])")


class LeadingZerosInLaterElements(WatchedGrammar):
    """Accepts leading zeros behind the first element of an array.

    Looks for leading zeros when it reads the first element of an array, and reads the digits of the
    others in a loop.
    """

    def elements(self, text: str, at: int, level: int) -> tuple[object, int]:
        """Read later elements without their leading zeros."""
        found: list[object] = []
        at = self.skip(text, at)
        more = text[at : at + 1] != "]"
        if not more:
            return found, at + 1
        while more:
            zeros = LEADING_ZEROS.match(text, at) if found else None
            if self.noted(zeros is not None):
                assert zeros is not None
                value: object = Number(zeros[0].lstrip("0") or "0")
                at = zeros.end()
            else:
                value, at = self.value(text, at, level + 1)
            found.append(value)
            at, more = self.after(text, at, "]")
        return found, at


class SmallDimensionsIn32Bits(Watched):
    """Multiplies dimensions below 65,536 in 32 bits and only larger ones in 64."""

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        """Compare with what is left of the number of elements."""
        if self.noted(all(dim < 2**16 for dim in shape) and product(shape) >= 2**32):
            left = 1
            for dim in shape:
                left = left * dim % 2**32
            return left * self.widths[dtype] == size * 8
        return super().fits(dtype, shape, size)


class PackedBitsWrap(Watched):
    """Accepts packed tensors whose size in bits wraps.

    Counts the bits of packed tensors in 64 bits without a look at the overflow, which it has tested for
    the number of elements.
    """

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        """Compare with what is left of the number of bits."""
        elements = product(shape)
        bits = elements * self.widths[dtype]
        if self.noted(dtype in PACKED and elements < 2**64 <= bits):
            return bits % 2**64 == size * 8
        return super().fits(dtype, shape, size)


class WrapTestedBySmaller(Watched):
    """Takes a product for one that has not wrapped when it is not smaller than before."""

    def fits(self, dtype: str, shape: Sequence[int], size: int) -> bool:
        """Compare with the wrapped product if it never became smaller."""
        total = 1
        grows = 0 not in shape
        for dim in shape:
            grows &= total * dim % 2**64 >= total
            total = total * dim % 2**64
        if self.noted(grows and product(shape) >= 2**64):
            return total * self.widths[dtype] == size * 8
        return super().fits(dtype, shape, size)


class DigitsBeyondADouble(Watched):
    """Keeps numbers as doubles, in which whole numbers above 2^53 are rounded."""

    def shape(self, value: object) -> tuple[int, ...]:
        """Round the dimensions."""
        exact = super().shape(value)
        rounded = tuple(int(float(dim)) for dim in exact)
        return rounded if self.noted(rounded != exact) else exact


class LeadingOneDropped(Watched):
    """Drops a first dimension of 1 from shapes of more than four dimensions, the most that it works with."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        """Describe the tensor without it."""
        if self.noted(len(tensor.shape) > 4 and tensor.shape[0] == 1):
            tensor = replace(tensor, shape=tensor.shape[1:])
        return super().described(tensor, data)


class NinthDimensionFolded(Watched):
    """Has room for eight dimensions and multiplies the further ones into the last."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        """Describe the tensor with eight dimensions."""
        if self.noted(len(tensor.shape) > 8):
            tensor = replace(tensor, shape=(*tensor.shape[:7], math.prod(tensor.shape[7:])))
        return super().described(tensor, data)


class ShapeCacheByCount(Watched):
    """Keeps one shape for all tensors of a dtype with the same number of elements."""

    def placed(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Give tensors the first shape of their number of elements."""
        cache: dict[tuple[str, int], tuple[int, ...]] = {}
        found = []
        for tensor in tensors:
            shape = cache.setdefault((tensor.dtype, math.prod(tensor.shape)), tensor.shape)
            self.noted(shape != tensor.shape)
            found.append(replace(tensor, shape=shape))
        return found


class ScalarNanQuieted(Watched):
    """Gives out scalars of F32 through a number of the machine, which makes a signalling NaN a quiet one."""

    def described(self, tensor: Tensor, data: bytes) -> dict[str, Any]:
        """Set the bit that tells the two apart."""
        if tensor.dtype == "F32" and not tensor.shape:
            bits = int.from_bytes(data[tensor.begin : tensor.end], "little")
            infinite, mantissa, quiet = bits & 0x7F800000 == 0x7F800000, bits & 0x7FFFFF, 0x400000
            if self.noted(infinite and 0 < mantissa < quiet):
                data = (bits | quiet).to_bytes(4, "little")
                return super().described(replace(tensor, begin=0, end=4), data)
        return super().described(tensor, data)


PLANTED = (
    by_grammar("leading-zeros-in-later-elements", "HDR-07 SHP-02 OFF-02", LeadingZerosInLaterElements),
    by_reader("small-dimensions-in-32-bits", "SHP-05 OFF-05", SmallDimensionsIn32Bits),
    by_reader("packed-bits-wrap", "SHP-05 OFF-05", PackedBitsWrap),
    by_reader("wrap-tested-by-smaller", "SHP-05 OFF-05", WrapTestedBySmaller),
    by_reader("digits-beyond-a-double", "SHP-11", DigitsBeyondADouble),
    by_reader("leading-one-dropped", "SHP-11", LeadingOneDropped),
    by_reader("ninth-dimension-folded", "SHP-11", NinthDimensionFolded),
    by_reader("shape-cache-by-count", "SHP-11", ShapeCacheByCount),
    by_reader("scalar-nan-quieted", "DAT-04", ScalarNanQuieted),
)
