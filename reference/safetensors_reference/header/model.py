"""Types that describe a header: the tensors and metadata of a valid file, and the byte ranges of any file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ..rules.dtypes import DTYPE_BITS
from ..text import quote_some
from .json_text import Integers


class TensorInfo(NamedTuple):
    """One tensor entry.

    Attributes:
        name: key of the entry, exactly as decoded (HDR-19).
        dtype: code of the element type, a key of ``DTYPE_BITS``.
        shape: dimensions in logical elements (DTY-10); the shape of a scalar is ``()``.
        begin: position of the first byte in the data buffer.
        end: position after the last byte in the data buffer.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Size of the tensor in bytes."""
        return self.end - self.begin

    @property
    def bits(self) -> int:
        """Width of one element in bits."""
        return DTYPE_BITS[self.dtype]


TensorRow = tuple[str, str, Sequence[int], int, int]
"""Name, dtype code and shape of a tensor, and the start and end of its bytes in the data buffer."""


class Rows(Mapping[str, TensorInfo]):
    """A mapping of names to tensor entries that can also iterate over entries without looking up names."""

    __slots__ = ()

    @abstractmethod
    def rows(self) -> Iterator[TensorRow]:
        """Yield (name, dtype, shape, begin, end) of every entry in header order."""

    def __repr__(self) -> str:
        return f"<tensors: {quote_some(self)}>"


def rows(tensors: Mapping[str, TensorInfo]) -> Iterable[TensorRow]:
    """Return (name, dtype, shape, begin, end) of every entry in header order."""
    return tensors.rows() if isinstance(tensors, Rows) else tensors.values()


class AlignedShare(NamedTuple):
    """Number of tensors with data that are aligned to ``boundary``, and number of their bytes."""

    boundary: int
    tensors: int
    of_tensors: int
    bytes: int
    of_bytes: int

    def __str__(self) -> str:
        tensors = f"{self.tensors:,} of {self.of_tensors:,} tensors"
        share = f"{100 * self.bytes / self.of_bytes:.1f}" if self.of_bytes else "100.0"
        return f"{tensors} and {share} % of the bytes aligned to {self.boundary:,}"


class Header(NamedTuple):
    """A header without faults.

    Attributes:
        length: number of header bytes N, including padding (FRM-01).
        tensors: mapping of names to entries, in header order.
        metadata: the metadata map, or None if the file has none. If there are very many keys, this is a
            Mapping instead of a dict.
        data_size: size of the data buffer in bytes.
    """

    length: int
    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str] | None
    data_size: int

    def __repr__(self) -> str:
        metadata = "" if self.metadata is None else f", metadata: {quote_some(self.metadata)}"
        return f"<Header of {self.data_size:,} bytes of data, tensors: {quote_some(self.tensors)}{metadata}>"

    @property
    def data_start(self) -> int:
        """File position of the first data byte."""
        return 8 + self.length

    def in_offset_order(self) -> list[TensorInfo]:
        """Return the entries in byte order.

        An empty tensor comes before a tensor that begins at the same position.
        """
        return sorted(self.tensors.values(), key=lambda t: (t.begin, t.end))


def aligned_share(header: Header, boundary: int) -> AlignedShare:
    """Count the tensors with data that begin at a file position divisible by ``boundary``."""
    sizes = [(begin, end - begin) for _, _, _, begin, end in rows(header.tensors) if end > begin]
    aligned = [size for begin, size in sizes if (header.data_start + begin) % boundary == 0]
    return AlignedShare(boundary, len(aligned), len(sizes), sum(aligned), sum(size for _, size in sizes))


class Range(NamedTuple):
    """Declared byte range of one tensor, and the position of its declaration in the file.

    ``begin`` and ``end`` are positions in the data buffer. ``start`` and ``stop`` are the file positions of
    the declaration. ``dtype`` and ``shape`` are None if they are unknown.
    """

    name: str
    begin: int
    end: int
    start: int
    stop: int
    dtype: str | None = None
    shape: tuple[int, ...] | Integers | None = None

    @property
    def label(self) -> str:
        """Dtype and shape as shown in the diagram, with ``?`` for unknown values."""
        return f"{self.dtype or '?'}{'?' if self.shape is None else show_shape(self.shape)}"


def show_shape(shape: Sequence[int] | Integers) -> str:
    """Format at most eight dimensions."""
    rank = len(shape)
    tail = f", … {rank} dimensions]" if rank > 8 else "]"
    return "[" + ", ".join(map(str, islice(shape, 8))) + tail
