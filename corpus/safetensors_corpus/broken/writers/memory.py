"""Writers with one mistake each: views, byte order and shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...writing import GivenTensor
from ..correct.reader import WIDTHS
from ..correct.writer import Row, SmallWriter, variants


class StridesIgnored(SmallWriter):
    """Writes the memory from the first element on as it lies."""

    def strides(self, tensor: GivenTensor, width: int) -> Sequence[int]:
        return super().strides(_without_strides(tensor), width)


def _without_strides(tensor: GivenTensor) -> GivenTensor:
    return GivenTensor(
        tensor.name, tensor.dtype, tensor.shape, tensor.storage, tensor.offset, None, tensor.byteorder
    )


class WholeStorage(SmallWriter):
    """Writes as many bytes as the tensor has, but from the start of the storage."""

    def contiguous(self, tensor: GivenTensor, size: int) -> bytes:
        return bytes(tensor.storage[:size])

    def places(self, tensor: GivenTensor, width: int) -> list[int]:
        return [place - tensor.offset for place in super().places(tensor, width)]


class NegativeStridesForwards(SmallWriter):
    """Takes a negative stride for a positive one."""

    def strides(self, tensor: GivenTensor, width: int) -> Sequence[int]:
        return [abs(s) for s in super().strides(tensor, width)]


class ViewsRefused(SmallWriter):
    """Refuses everything that has strides or an offset."""

    def data(self, tensor: GivenTensor) -> bytes:
        if tensor.offset or tensor.strides is not None:
            raise ValueError("not contiguous")
        return super().data(tensor)


class BigEndianKept(SmallWriter):
    """Writes big-endian elements as they are."""

    def swapped(self, element: bytes, dtype: str) -> bytes:  # noqa: ARG002
        return element


class ComplexTurnedWhole(SmallWriter):
    """Turns a complex number around as one element, so that its parts change places."""

    def swapped(self, element: bytes, dtype: str) -> bytes:  # noqa: ARG002
        return element[::-1]


class AlwaysTurned(SmallWriter):
    """Turns the bytes of every element around."""

    def data(self, tensor: GivenTensor) -> bytes:
        data, width = super().data(tensor), max(WIDTHS[tensor.dtype] // 8, 1)
        return b"".join(data[i : i + width][::-1] for i in range(0, len(data), width))


class MarkedBytesRefused(SmallWriter):
    """Refuses elements of one byte whose order is not said to be that of the machine."""

    def dtype(self, tensor: GivenTensor) -> str:
        if (
            WIDTHS.get(tensor.dtype) == 8
            and tensor.byteorder == "little"
            and tensor.dtype in ("U8", "F8_E5M2")
        ):
            raise ValueError("byte order")
        return super().dtype(tensor)


class SharedOnce(SmallWriter):
    """Drops every tensor whose storage it has met."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        met: set[int] = set()
        kept = [t for t in tensors if id(t.storage) not in met and not met.add(id(t.storage))]  # type: ignore[func-returns-value] # a set has no better way
        return super().rows(kept)


class SharedStorageRefused(SmallWriter):
    """Refuses two tensors of one storage, even when they have no byte in common."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        if len({id(t.storage) for t in tensors}) != len(tensors):
            raise ValueError("shared")
        return super().rows(tensors)


class EqualTensorsOnce(SmallWriter):
    """Stores equal bytes once and leaves the second tensor out."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        met: dict[bytes, Row] = {}
        for row in super().rows(tensors):
            met.setdefault(row.data, row)
        return list(met.values())


VARIANTS = variants(globals(), __name__)
