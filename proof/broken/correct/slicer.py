"""A small and correct slicer, from which broken slicers are derived.

It counts elements one by one and uses no array library, so it checks the expectations taken from NumPy.
Checks have names and can be left out (``left_out``), and the steps are methods.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from safetensors_corpus.judging.answer import Refused

from .json import Checked
from .reader import READER, SmallReader, Tensor

Axis = tuple[Sequence[int], bool]
"""The selected positions along one dimension, and whether the dimension remains in the result."""
Slice = tuple[str, Sequence[int], bytes]


@dataclass(frozen=True)
class SmallSlicer(Checked):
    """A slicer with NumPy's ranges and any step, but without lists, masks and new dimensions."""

    reader: SmallReader = READER

    def slice(self, path: Path, name: str, index: tuple[Any, ...]) -> Slice:
        """Return the dtype, shape and bytes of a part of a tensor. Raises Refused and OSError."""
        tensors, data = self.tensors(path.read_bytes())
        tensor = self.named(tensors, name)
        axes = self.axes(tensor.shape, self.parts(tensor.shape, index))
        raw = self.gather(tensor, axes, data, tensor.begin)
        return tensor.dtype, self.shape(axes), raw

    def tensors(self, file: bytes) -> tuple[list[Tensor], bytes]:
        """Check a whole file, and return its tensors and its data buffer."""
        header, data = self.reader.split(file)
        tensors, _ = self.reader.entries(self.reader.members(header))
        self.reader.check_layout(tensors, len(data))
        return tensors, data

    def named(self, tensors: Sequence[Tensor], name: str) -> Tensor:
        for tensor in tensors:
            if tensor.name == name:
                return tensor
        raise Refused("no-such-tensor")

    def parts(self, shape: Sequence[int], index: tuple[Any, ...]) -> list[Any]:
        dots = [place for place, part in enumerate(index) if part is Ellipsis]
        self.demand("two-ellipses", len(dots) <= 1)
        place = dots[0] if dots else len(index)
        before, behind = self.around(list(index), place)
        missing = len(shape) - len(before) - len(behind)
        self.demand("too-many", missing >= 0)
        return [*before, *[slice(None)] * missing, *behind]

    def around(self, index: list[Any], place: int) -> tuple[list[Any], list[Any]]:
        return index[:place], [part for part in index[place + 1 :] if part is not Ellipsis]

    def axes(self, shape: Sequence[int], parts: Sequence[Any]) -> list[Axis]:
        return [
            self.axis(size, part, dim) for dim, (size, part) in enumerate(zip(shape, parts, strict=False))
        ]

    def axis(self, size: int, part: Any, dim: int) -> Axis:  # noqa: ARG002 - broken ones look at it
        """Return the selected positions along one dimension of ``size`` elements."""
        if isinstance(part, slice):
            step = 1 if part.step is None else self.number(part.step)
            self.demand("step-zero", step != 0)
            return self.range(size, part.start, part.stop, step), True
        return [self.integer(size, self.number(part))], False

    def number(self, value: Any) -> int:
        self.demand("bool", type(value) is not bool)
        try:
            number: int = operator.index(value)
        except TypeError:
            raise Refused("index-type") from None
        return number

    def integer(self, size: int, value: int) -> int:
        self.demand("above", value < size)
        self.demand("below", value >= -size)
        return value + size if value < 0 else value

    def range(self, size: int, start: Any, stop: Any, step: int) -> Sequence[int]:
        low, high = (0, size) if step > 0 else (-1, size - 1)
        first = self.bound(size, start, low, high, low if step > 0 else high)
        last = self.bound(size, stop, low, high, high if step > 0 else low)
        return range(first, last, step)

    def bound(self, size: int, value: Any, low: int, high: int, default: int) -> int:
        """Return a bound, counted from the front and clamped to the dimension."""
        if value is None:
            return default
        bound = self.number(value)
        return min(max(bound + size if bound < 0 else bound, low), high)

    def shape(self, axes: Sequence[Axis]) -> list[int]:
        return [len(positions) for positions, stays in axes if stays]

    def strides(self, shape: Sequence[int]) -> list[int]:
        """Return the distance in elements between neighbours along each dimension in row-major order."""
        out = [1]
        for size in reversed(shape[1:]):
            out.insert(0, out[0] * size)
        return out[: len(shape)]

    def gather(self, tensor: Tensor, axes: Sequence[Axis], data: bytes, begin: int) -> bytes:
        """Return the bytes of the selected elements in row-major order."""
        strides = self.strides(tensor.shape)
        width = self.width(tensor.dtype)
        out = []
        for first, count in self.runs(axes, strides):
            self.demand("start-in-byte", first * width % 8 == 0)
            self.demand("end-in-byte", count * width % 8 == 0)
            at = begin + first * width // 8
            out.append(data[at : at + count * width // 8])
        return b"".join(out)

    def width(self, dtype: str) -> int:
        return self.reader.widths[dtype]

    def runs(self, axes: Sequence[Axis], strides: Sequence[int]) -> list[tuple[int, int]]:
        """Return runs of neighbouring elements as pairs of the first element and the number of elements."""
        runs: list[tuple[int, int]] = []
        for places in product(*(positions for positions, _ in axes)):
            element = sum(place * stride for place, stride in zip(places, strides, strict=False))
            if runs and sum(runs[-1]) == element:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((element, 1))
        return runs


SLICER = SmallSlicer()
"""The correct slicer."""
