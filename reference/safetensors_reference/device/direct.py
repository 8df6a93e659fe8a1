"""Reading past the page cache with O_DIRECT: for files on fast disks that will be read once.

Such reads begin and end on blocks, so a chunk is read with up to a page too much on either side, and its copy
starts where the chunk begins.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

from ..rules.errors import AccessError
from ..source import PathSource, shorter
from .plan import Chunk, Segment, cut_on_grid
from .reading import unreadable
from .ring import PAGE

HINT = "load without direct=True"


class DirectReader:
    """Reads with O_DIRECT through a descriptor of its own of the file that is open already."""

    def __init__(self, source: PathSource) -> None:
        """Open. Raises AccessError where system or file system have no O_DIRECT."""
        self.source = source
        flag = getattr(os, "O_DIRECT", None)
        if flag is None:
            raise AccessError(f"{source.name}: this system has no O_DIRECT; {HINT}")
        try:
            # By descriptor: the path may lead to another file by now.
            self._fd = os.open(f"/proc/self/fd/{source.fd}", os.O_RDONLY | os.O_CLOEXEC | flag)
        except OSError as err:
            if err.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                raise self._unsupported() from err
            raise AccessError(
                f"{source.name}: cannot be opened with O_DIRECT: {err.strerror}; {HINT}"
            ) from err

    def _unsupported(self) -> AccessError:
        return AccessError(f"{self.source.name}: its file system does not support O_DIRECT; {HINT}")

    def chunks(self, segments: Iterable[Segment], chunk: int) -> Iterator[Chunk]:
        """Cut at pages of the file, so that none is read twice."""
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
                count = os.preadv(self._fd, [view[done:span]], low + done)
            except OSError as err:
                if err.errno == errno.EINVAL:
                    raise self._unsupported() from err
                raise unreadable(self.source, low + done, err) from err
            if low + done + count >= high:
                break
            # A read that stops short inside a page has met the end of the file, or is taken up at that page.
            if count < PAGE and low + done + count >= os.fstat(self._fd).st_size:
                raise shorter(self.source.name, max(at, low + done + count))
            if count < PAGE:
                raise unreadable(
                    self.source, low + done, OSError(errno.EIO, "O_DIRECT reads less than a page")
                )
            done += count - count % PAGE
        return at - low

    def close(self) -> None:
        """Close the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
