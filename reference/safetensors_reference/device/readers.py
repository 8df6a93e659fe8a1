"""Fills slots with chunks of a file, reading either through the page cache or with O_DIRECT.

O_DIRECT is suitable for files on fast disks that are read only once. O_DIRECT reads whole blocks, so a read
includes up to a page before and after the chunk, but only the chunk itself is copied.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

from ..arrays.buffers import read_into
from ..rules.errors import AccessError
from ..source import Descriptor, PathSource, shorter, unreadable
from .engine import PAGE
from .plan import Chunk, Segment, cut, cut_on_grid

HINT = "load without direct=True"


class PlainReader:
    """Reads through the page cache. Each run of file bytes is read and scattered by one system call."""

    in_place = True  # each chunk begins at the start of its slot

    def __init__(self, source: PathSource) -> None:
        self.source = source

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
        return cut(segments, chunk)

    def fill(self, chunk: Chunk, view: memoryview) -> int:
        """Read a chunk into a slot, and return 0, its position there. Raises UnreadableError."""
        end = 0
        for read in chunk.reads:
            for at, length in read.pieces:
                if at > end:  # a gap, in which the slot has bytes of an earlier chunk
                    view[end:at] = bytes(at - end)
                end = at + length
            read_into(self.source, read.file_at, [view[at : at + length] for at, length in read.pieces])
        return 0


class DirectReader(Descriptor):
    """Reads with O_DIRECT, using a separate descriptor for the open file."""

    in_place = False

    def __init__(self, source: PathSource) -> None:
        self.source = source
        flag = getattr(os, "O_DIRECT", None)
        if flag is None:
            raise AccessError(f"{source.name}: this system has no O_DIRECT; {HINT}")
        try:
            # Open the file through its descriptor, because the path may now refer to another file.
            self.fd = os.open(f"/proc/self/fd/{source.fd}", os.O_RDONLY | os.O_CLOEXEC | flag)
        except OSError as err:
            if err.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                raise self._unsupported() from err
            text = f"cannot be opened with O_DIRECT: {err.strerror}"
            raise AccessError(f"{source.name}: {text}; {HINT}") from err

    def _unsupported(self) -> AccessError:
        return AccessError(f"{self.source.name}: its file system does not support O_DIRECT; {HINT}")

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
        return cut_on_grid(segments, chunk, PAGE)

    def fill(self, chunk: Chunk, view: memoryview) -> int:
        """Read the pages that contain the chunk. Return the position of the chunk in the first page."""
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
                raise unreadable(self.source.name, low + done, err) from err
            if low + done + count >= high:
                break
            # A read that returns less than a page should have reached the end of the file. After other short
            # reads, continue from the last whole page.
            if count < PAGE and low + done + count >= os.fstat(self.fd).st_size:
                raise shorter(self.source.name, max(at, low + done + count))
            if count < PAGE:
                short = OSError(errno.EIO, "O_DIRECT returned less than a page")
                raise unreadable(self.source.name, low + done, short)
            done += count - count % PAGE
        return at - low


Reader = PlainReader | DirectReader
