"""Plan of the one buffer that the tensors of a file share: the place of every byte, before any is read.

Nothing here touches files, memory or devices. Positions are bytes: ``file_at`` counts in the file, ``at`` in
the buffer. The length of the header plays no part: bytes are read from wherever they stand to wherever they
belong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from ..header.model import Header, TensorRow, rows
from ..rules.dtypes import DTYPE_BITS

MAX_ALIGN = 256
"""Largest alignment in bytes that can be promised: what every allocator of a device keeps to."""


class Segment(NamedTuple):
    """File bytes ``[file_at, file_at + size)`` that lie in the buffer from ``at`` on."""

    file_at: int
    at: int
    size: int


class Plan(NamedTuple):
    """The buffer of one file.

    Attributes:
        rows: the tensors wanted, in header order, with their places in the buffer.
        segments: what is read, in the order of the buffer, as few as there can be.
        size: bytes of the buffer.
        gaps: how many of them belong to no tensor.
    """

    rows: Sequence[TensorRow]
    segments: Sequence[Segment]
    size: int
    gaps: int


class Read(NamedTuple):
    """File bytes from ``file_at`` on, one after another, into pieces (first byte in the chunk, length)."""

    file_at: int
    pieces: list[tuple[int, int]]


class Chunk(NamedTuple):
    """Buffer bytes ``[at, at + size)``, and the reads that fill them but for gaps."""

    at: int
    size: int
    reads: list[Read]


def make_plan(header: Header, names: Collection[str] | None = None, align: int = 1) -> Plan:
    """Plan the buffer of a file.

    Every tensor begins at a multiple of its element size, and of ``align``. Where the file's own layout does
    that already, or when gaps are needed nowhere, the buffer is the data buffer of the file; where not, a gap
    goes in front of the tensor and moves all that follow, so a run of tensors off by the same amount costs
    one gap. A subset is closed up: what is not wanted takes no room.

    Args:
        header: a validated header.
        names: the tensors wanted, all by default. They are in the header.
        align: a power of two up to ``MAX_ALIGN``.
    """
    wanted: list[TensorRow] = list(rows(header.tensors))
    if names is None:
        if _aligned(wanted, align):
            size = header.data_size
            return Plan(wanted, [Segment(header.data_start, 0, size)] if size else [], size, 0)
    else:
        chosen = set(names)
        wanted = [row for row in wanted if row[0] in chosen]
    places: dict[str, int] = {}
    segments: list[Segment] = []
    first, shift, cursor, gaps = 0, 0, 0, 0  # the segment under way: buffer minus file position is ``shift``
    for name, code, _, begin, end in sorted(wanted, key=itemgetter(3, 4)):
        if begin == end:
            continue
        step = max(align, DTYPE_BITS[code] // 8, 1)
        at = cursor + -cursor % step
        file_at = header.data_start + begin
        if at != cursor or at - file_at != shift:
            if cursor > first:
                segments.append(Segment(first - shift, first, cursor - first))
            gaps += at - cursor
            first, shift = at, at - file_at
        places[name] = at
        cursor = at + end - begin
    if cursor > first:
        segments.append(Segment(first - shift, first, cursor - first))
    # Empty tensors lie nowhere; 0 is as good a place as any.
    placed = [
        (name, code, shape, places.get(name, 0), places.get(name, 0) + end - begin)
        for name, code, shape, begin, end in wanted
    ]
    return Plan(placed, segments, cursor, gaps)


def _aligned(wanted: Iterable[TensorRow], align: int) -> bool:
    steps = {code: max(align, bits // 8, 1) for code, bits in DTYPE_BITS.items()}
    return all(begin % steps[code] == 0 or begin == end for _, code, _, begin, end in wanted)


def cut(segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
    """Yield chunks of the buffer of at most ``chunk`` bytes each, gaps inside included.

    Chunks know nothing of tensors: a chunk may hold many of them or a part of one.
    """
    start = -1
    end = 0
    reads: list[Read] = []
    file_end = -1
    for file_at, at, size in segments:
        done = 0
        while done < size:
            if start < 0:
                start = at + done
            length = min(chunk - (at + done - start), size - done)
            if length > 0:
                if file_at + done != file_end:
                    reads.append(Read(file_at + done, []))
                reads[-1].pieces.append((at + done - start, length))
                done += length
                end = at + done
                file_end = file_at + done
            if length <= 0 or end - start == chunk:
                yield Chunk(start, end - start, reads)
                start, file_end, reads = -1, -1, []
    if start >= 0:
        yield Chunk(start, end - start, reads)


def cut_on_grid(segments: Iterable[Segment], chunk: int, grid: int) -> Iterator[Chunk]:
    """Yield chunks of one read of one piece each, cut at file positions that are multiples of ``grid``.

    For ways of reading that cannot scatter. A chunk has at most ``chunk`` bytes. The blocks of ``grid`` bytes
    that hold it take no more than ``chunk`` rounded up to the grid, or two of them.
    """
    for file_at, at, size in segments:
        done = 0
        while done < size:
            begin = file_at + done
            stop = (begin + chunk) // grid * grid
            length = min(stop - begin if stop > begin else chunk, size - done)
            yield Chunk(at + done, length, [Read(begin, [(0, length)])])
            done += length
