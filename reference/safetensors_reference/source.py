"""Where the bytes come from: a path, a bytes-like object or a seekable binary file object."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol

from .errors import SafetensorsError

if TYPE_CHECKING:
    from collections.abc import Iterator

SourceLike = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO


class UnreadableError(SafetensorsError, OSError):
    """The input cannot be read at all, so nothing is known about its validity (code IO_ERROR)."""

    code = "IO_ERROR"
    rule = "API-13"


class Source(Protocol):
    """Random access to the bytes of one file."""

    name: str
    size: int

    def read(self, start: int, count: int) -> bytes:
        """Return the bytes ``[start, start + count)``. Raises UnreadableError on a short read."""
        ...


class MemorySource:
    """A source over a bytes-like object; nothing is copied until it is read."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        view = memoryview(data)
        # Only contiguous views can be seen as bytes; others are rare and copied.
        self._view = view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())
        self.name = name
        self.size = len(self._view)

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on."""
        return bytes(self._view[start : start + count])


class FileSource:
    """A source over an open binary file object, read by position."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        try:
            self.size = file.seek(0, os.SEEK_END)
        except (OSError, ValueError) as err:
            raise UnreadableError(f"{name}: cannot be read by position: {err}") from err

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on. Raises UnreadableError when the file became shorter."""
        self._file.seek(start)
        out = self._file.read(count)
        if len(out) != count:
            raise shorter(self.name, start + len(out))
        return out


class PathSource:
    """A source over a regular file of the file system, read by position through one descriptor.

    The descriptor stays the same file when the path is replaced (API-12).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        try:
            # Without waiting: a FIFO would otherwise hang until somebody writes to it (API-13).
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as err:
            reason = getattr(err, "strerror", None) or err
            raise UnreadableError(f"{self.name}: {reason}") from err
        self.opened = os.fstat(self.fd)
        if not stat.S_ISREG(self.opened.st_mode):
            self.close()
            raise UnreadableError(f"{self.name}: not a regular file")
        self.size = self.opened.st_size

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on. Raises UnreadableError when the file became shorter."""
        try:
            out = os.pread(self.fd, count, start)
            while len(out) < count:
                more = os.pread(self.fd, count - len(out), start + len(out))
                if not more:
                    raise shorter(self.name, start + len(out))
                out += more
        except OSError as err:
            if isinstance(err, UnreadableError):
                raise
            raise UnreadableError(f"{self.name}: {err.strerror or err}") from err
        return out

    def close(self) -> None:
        """Close the descriptor; harmless when it is closed already."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the bytes of a regular file, opened without waiting; its size is looked at before it is read.

    For files that come from elsewhere: a FIFO, a device or a link to one neither hangs nor fills the memory.

    Args:
        path: the file.
        most: bytes that it may have.

    Raises:
        UnreadableError: it is missing, unreadable, no regular file or larger.
    """
    source = PathSource(path)
    try:
        if source.size > most:
            raise UnreadableError(f"{source.name}: {source.size:,} bytes, more than {most:,}")
        return source.read(0, source.size)
    finally:
        source.close()


def shorter(name: str, at: int) -> UnreadableError:
    """Return the error for a file that ends before it did when it was opened (API-11)."""
    return UnreadableError(
        f"{name}: became shorter while it was read, at byte {at:,}", "API_TRUNCATED", "API-11"
    )


@contextmanager
def open_source(what: SourceLike) -> Iterator[Source]:
    """Open ``what`` as a source. Raises UnreadableError for a missing, unreadable or non-regular file."""
    if isinstance(what, (str, os.PathLike)):
        path = PathSource(what)
        try:
            yield path
        finally:
            path.close()
    elif isinstance(what, (bytes, bytearray, memoryview)):
        yield MemorySource(what)
    else:
        yield FileSource(what, str(getattr(what, "name", "<file object>")))
