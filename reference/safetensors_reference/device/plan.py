"""Plans the buffer of a file before any data is read. The plan assigns every byte a position in the buffer.

All positions are in bytes: ``file_at`` is a position in the file, and ``at`` is a position in the buffer. The
layout of the buffer does not depend on the header length.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from ..header.model import Header, TensorRow, rows
from ..rules.dtypes import DTYPE_BITS

MAX_ALIGN = 256
"""Largest alignment in bytes that every device allocator guarantees."""


class Segment(NamedTuple):
    """File bytes ``[file_at, file_at + size)``, which are loaded into the buffer at ``at``."""

    file_at: int
    at: int
    size: int


class Plan(NamedTuple):
    """The buffer of one file: tensor positions, segments to read, size, and number of bytes in gaps."""

    rows: Sequence[TensorRow]
    segments: Sequence[Segment]
    size: int
    gaps: int


class Read(NamedTuple):
    """Consecutive file bytes from ``file_at``, split into pieces (first byte in the chunk, length)."""

    file_at: int
    pieces: list[tuple[int, int]]


class Chunk(NamedTuple):
    """Buffer bytes ``[at, at + size)``, and the reads that fill all of them except gaps."""

    at: int
    size: int
    reads: list[Read]


def make_plan(header: Header, names: Collection[str] | None = None, align: int = 1) -> Plan:
    """Plan a buffer in which each tensor begins at a multiple of ``align`` and of its element size.

    A gap before a tensor shifts all following tensors. If no gaps are needed, the buffer has the same content
    as the data buffer of the file.
    """
    wanted: list[TensorRow] = list(rows(header.tensors))
    if names is None:
        steps = {code: max(align, bits // 8, 1) for code, bits in DTYPE_BITS.items()}
        if all(begin % steps[code] == 0 or begin == end for _, code, _, begin, end in wanted):
            size = header.data_size
            return Plan(wanted, [Segment(header.data_start, 0, size)] if size else [], size, 0)
    else:
        chosen = set(names)
        wanted = [row for row in wanted if row[0] in chosen]
    places: dict[str, int] = {}
    segments: list[Segment] = []
    first, shift, cursor, gaps = 0, 0, 0, 0  # shift: buffer position minus file position of the segment
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
    # An empty tensor can have any position.
    placed = [
        (name, code, shape, places.get(name, 0), places.get(name, 0) + end - begin)
        for name, code, shape, begin, end in wanted
    ]
    return Plan(placed, segments, cursor, gaps)


def cut(segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
    """Cut the buffer into chunks of at most ``chunk`` bytes, which include gaps and may divide tensors."""
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
    """Cut segments at multiples of ``grid`` into chunks of one piece, for readers that cannot scatter."""
    for file_at, at, size in segments:
        done = 0
        while done < size:
            begin = file_at + done
            stop = (begin + chunk) // grid * grid
            length = min(stop - begin if stop > begin else chunk, size - done)
            yield Chunk(at + done, length, [Read(begin, [(0, length)])])
            done += length
