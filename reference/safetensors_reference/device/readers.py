"""Reading a chunk into a slot: through the page cache, every byte straight to its place, or past it.

Reads past the page cache (O_DIRECT) are for files on fast disks that will be read once. They begin and end on
blocks, so a chunk is read with up to a page too much on either side, and its copy starts where the chunk
begins.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..rules.errors import AccessError
from ..source import Descriptor, PathSource, UnreadableError, truncated_error
from .engine import PAGE
from .plan import Chunk, Segment, cut, cut_on_grid

MAX_PIECES = max(16, os.sysconf("SC_IOV_MAX")) if hasattr(os, "sysconf") else 16
"""Pieces that one system call takes; POSIX promises 16, Linux has 1024."""
HINT = "load without direct=True"


class Reader(Protocol):
    """A way of reading one open file.

    Attributes:
        in_place: whether a chunk begins where it is read to, so that it can be read to where it belongs.
    """

    source: PathSource
    in_place: bool

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]: ...

    def fill(self, chunk: Chunk, view: memoryview) -> int:
        """Read a chunk into a slot and return where in the slot it begins.

        Raises UnreadableError with the byte concerned.
        """
        ...

    def close(self) -> None: ...


class PlainReader:
    """Reads through the page cache, scattered over the chunk: one system call for each run of file bytes."""

    in_place = True

    def __init__(self, source: PathSource) -> None:
        self.source = source

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
        return cut(segments, chunk)

    def fill(self, chunk: Chunk, view: memoryview) -> int:
        for read in chunk.reads:
            _scatter(self.source, read.file_at, [view[at : at + length] for at, length in read.pieces])
        return 0

    def close(self) -> None:
        """Nothing was opened."""


class DirectReader(Descriptor):
    """Reads with O_DIRECT through a descriptor of its own of the file that is open already."""

    in_place = False

    def __init__(self, source: PathSource) -> None:
        """Open. Raises AccessError where system or file system have no O_DIRECT."""
        self.source = source
        flag = getattr(os, "O_DIRECT", None)
        if flag is None:
            raise AccessError(f"{source.name}: this system has no O_DIRECT; {HINT}")
        try:
            # By descriptor: the path may lead to another file by now.
            self.fd = os.open(f"/proc/self/fd/{source.fd}", os.O_RDONLY | os.O_CLOEXEC | flag)
        except OSError as err:
            if err.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                raise self._unsupported() from err
            raise AccessError(
                f"{source.name}: cannot be opened with O_DIRECT: {err.strerror}; {HINT}"
            ) from err

    def _unsupported(self) -> AccessError:
        return AccessError(f"{self.source.name}: its file system does not support O_DIRECT; {HINT}")

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
        return cut_on_grid(segments, chunk, PAGE)

    def fill(self, chunk: Chunk, view: memoryview) -> int:
        """Read the pages that hold the chunk; it begins where it does in its first page."""
        at = chunk.reads[0].file_at
        low = at - at % PAGE
        high = at + chunk.size
        span = high + -high % PAGE - low
        done = 0
        while low + done < high:
            try:
                count = os.preadv(self.fd, [view[done:span]], low + done)
            except OSError as err:
                if err.errno == errno.EINVAL:
                    raise self._unsupported() from err
                raise _unreadable(self.source, low + done, err) from err
            if low + done + count >= high:
                break
            # A read that stops short inside a page has met the end of the file, or is taken up at that page.
            if count < PAGE and low + done + count >= os.fstat(self.fd).st_size:
                raise truncated_error(self.source.name, max(at, low + done + count))
            if count < PAGE:
                raise _unreadable(
                    self.source, low + done, OSError(errno.EIO, "O_DIRECT reads less than a page")
                )
            done += count - count % PAGE
        return at - low


def _scatter(source: PathSource, file_at: int, pieces: Sequence[memoryview]) -> None:
    """Fill ``pieces`` one after another with the file's bytes from ``file_at`` on.

    Raises UnreadableError, of code API_TRUNCATED where the file ends before them.
    """
    todo = list(pieces)
    first = 0
    while first < len(todo):
        try:
            count = os.preadv(source.fd, todo[first : first + MAX_PIECES], file_at)
        except OSError as err:
            raise _unreadable(source, file_at, err) from err
        if count == 0:
            raise truncated_error(source.name, file_at)
        file_at += count
        while count:
            if count < len(todo[first]):
                todo[first] = todo[first][count:]
                break
            count -= len(todo[first])
            first += 1


def _unreadable(source: PathSource, at: int, err: OSError) -> UnreadableError:
    return UnreadableError(f"{source.name}: at byte {at:,}: {err.strerror or err}")
