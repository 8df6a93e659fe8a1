"""Reading a chunk into a slot: every byte goes straight to its place, gaps left open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..source import PathSource, UnreadableError, shorter
from .plan import Chunk, Segment, cut

# How many pieces one system call takes; POSIX promises 16, Linux has 1024.
MOST_PIECES = max(16, os.sysconf("SC_IOV_MAX")) if hasattr(os, "sysconf") else 16


class Reader(Protocol):
    """A way of reading one open file."""

    source: PathSource

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
        """Cut what is to be read into chunks of at most ``chunk`` bytes that ``fill`` can read."""
        ...

    def fill(self, chunk: Chunk, view: memoryview) -> int:
        """Read a chunk into a slot and return where in the slot it begins.

        Raises UnreadableError with the byte concerned.
        """
        ...

    def close(self) -> None:
        """Give back what was opened besides the source."""
        ...


class PlainReader:
    """Reads through the page cache, scattered over the chunk: one system call for each run of file bytes."""

    def __init__(self, source: PathSource) -> None:
        self.source = source

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
        """Cut anywhere."""
        return cut(segments, chunk)

    def fill(self, chunk: Chunk, view: memoryview) -> int:
        """Read a chunk to the start of the slot."""
        for read in chunk.reads:
            scatter(self.source, read.file_at, [view[at : at + length] for at, length in read.pieces])
        return 0

    def close(self) -> None:
        """Nothing was opened."""


def scatter(source: PathSource, file_at: int, pieces: Sequence[memoryview]) -> None:
    """Fill ``pieces`` one after another with the file's bytes from ``file_at`` on.

    Raises UnreadableError, of code API_TRUNCATED where the file ends before them.
    """
    todo = list(pieces)
    first = 0
    while first < len(todo):
        try:
            count = os.preadv(source.fd, todo[first : first + MOST_PIECES], file_at)
        except OSError as err:
            raise unreadable(source, file_at, err) from err
        if count == 0:
            raise shorter(source.name, file_at)
        file_at += count
        while count:
            if count < len(todo[first]):
                todo[first] = todo[first][count:]
                break
            count -= len(todo[first])
            first += 1


def unreadable(source: PathSource, at: int, err: OSError) -> UnreadableError:
    """Return the error for a read that the system refused."""
    return UnreadableError(f"{source.name}: at byte {at:,}: {err.strerror or err}")
