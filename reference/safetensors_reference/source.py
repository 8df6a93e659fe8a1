"""Where the bytes come from: a path, a bytes-like object or a seekable binary file object."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from pathlib import Path
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
        self._view = memoryview(data).cast("B")
        self.name = name
        self.size = len(self._view)

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on."""
        return bytes(self._view[start : start + count])


class FileSource:
    """A source over an open binary file, read by position."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self.size = file.seek(0, os.SEEK_END)

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on. Raises UnreadableError when the file became shorter."""
        self._file.seek(start)
        out = self._file.read(count)
        if len(out) != count:
            raise UnreadableError(
                f"{self.name}: became shorter while it was read, at byte {start + len(out)}"
            )
        return out


@contextmanager
def open_source(what: SourceLike) -> Iterator[Source]:
    """Open ``what`` as a source. Raises UnreadableError for a missing, unreadable or non-regular file."""
    if isinstance(what, (bytes, bytearray, memoryview)):
        yield MemorySource(what)
        return
    if not isinstance(what, (str, os.PathLike)):
        yield FileSource(what, str(getattr(what, "name", "<file object>")))
        return
    path = Path(what)
    try:
        # Opening a FIFO would wait for a writer, so the kind of file is looked at first (API-13).
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError(f"{path}: not a regular file")
        file = path.open("rb", buffering=0)
    except UnreadableError:
        raise
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or err
        raise UnreadableError(f"{path}: {reason}") from err
    with file:
        yield FileSource(file, str(path))
