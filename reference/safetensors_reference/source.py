"""Reads bytes from a path, an object with the buffer protocol or a seekable binary file object."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, Protocol, Self, TypeAlias
from weakref import WeakKeyDictionary

from .rules.errors import SafetensorsError
from .text import shown

if TYPE_CHECKING:
    from typing_extensions import Buffer

SourceLike: TypeAlias = "str | os.PathLike[str] | Buffer | BinaryIO"
"""A path, an object with the buffer protocol, or a seekable binary file."""


class UnreadableError(SafetensorsError, OSError):
    """Raised if an input cannot be read, so its validity is unknown (code IO_ERROR)."""

    code = "IO_ERROR"
    rule = "API-13"


class Source(Protocol):
    """Random access to the bytes of one file."""

    name: str
    size: int

    def read(self, start: int, count: int) -> bytes:
        """Return the bytes ``[start, start + count)``. Raises UnreadableError on a short read."""
        ...


class Uncopied:
    """Base class of open handles, which cannot be copied or pickled."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        text = f"cannot copy or pickle a {type(self).__name__}"
        why = "it refers to a file that is open in this process; open the file again where you need it"
        raise TypeError(f"{text}: {why}")


class Opened(Uncopied):
    """Context manager that closes its source."""

    def close(self) -> None:
        """Release the resources that this object owns. Further calls do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Descriptor(Opened):
    """Owns the descriptor ``fd`` (-1 if closed) and closes it when the object is no longer referenced."""

    fd = -1

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class MemorySource(Opened):
    """Source for an object with the buffer protocol. Bytes are copied only when they are read."""

    def __init__(self, data: Buffer, name: str = "<bytes>") -> None:
        view = memoryview(data)
        # Only contiguous views can be cast to bytes. Other views are rare, so they are copied.
        self._view = view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())
        self.name = name
        self.size = len(self._view)

    def read(self, start: int, count: int) -> bytes:
        return bytes(self._view[start : start + count])

    def close(self) -> None:
        self._view.release()


class FileSource(Opened):
    """Source for an open binary file object. Several threads may read from it."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self._lock = _lock_of(file)
        with self._lock, self._unreadable("cannot be read by position"):
            self.size = file.seek(0, os.SEEK_END)
            empty: object = file.read(0)
        if not isinstance(empty, bytes):
            text = f"this is not a binary file, since read(0) returned {type(empty).__name__}"
            raise UnreadableError(f"{name}: cannot be read: {text}")
        if type(self.size) is not int or self.size < 0:
            raise UnreadableError(f"{name}: cannot be read by position: seek() did not return a position")

    def read(self, start: int, count: int) -> bytes:
        with self._unreadable("cannot be read"):
            direct = _has_descriptor(self._file)
        if direct:
            return _read_all(self._positioned, self.name, start, count)
        with self._lock:
            with self._unreadable("cannot be read"):
                self._file.seek(start)
            return _read_all(self._next, self.name, start, count)

    def _positioned(self, start: int, count: int) -> bytes:
        with self._unreadable("cannot be read"):
            return os.pread(self._file.fileno(), count, start)

    def _next(self, start: int, count: int) -> bytes:  # noqa: ARG002 - the object has its own position
        with self._unreadable("cannot be read"):
            part: object = self._file.read(count)
        if not isinstance(part, bytes) or len(part) > count:
            returned = f"{len(part):,} bytes" if isinstance(part, bytes) else type(part).__name__
            raise UnreadableError(f"{self.name}: cannot be read: read({count:,}) returned {returned}")
        return part

    @contextmanager
    def _unreadable(self, problem: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError, AttributeError) as err:
            raise UnreadableError(f"{self.name}: {problem}: {err}") from err


_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_new_lock = RLock()


def _lock_of(file: object) -> AbstractContextManager[object]:
    with _new_lock:
        try:
            return _locks.setdefault(file, RLock())  # type: ignore[no-any-return]
        except TypeError:  # neither hashable nor weakly referable, so all such objects share one lock
            return _new_lock


def _has_descriptor(file: object) -> bool:
    """Return whether reading through the descriptor returns the same bytes as reading the file object."""
    raw = file.raw if type(file) is io.BufferedReader and not file.closed else file
    return type(raw) is io.FileIO and not raw.closed


def _read_all(read: Callable[[int, int], bytes], name: str, start: int, count: int) -> bytes:
    first = read(start, count)
    if len(first) == count:
        return first
    out = bytearray(first)
    while len(out) < count:
        part = read(start + len(out), count - len(out))
        if not part:
            raise shorter(name, start + len(out))
        out += part
    return bytes(out)


class PathSource(Descriptor):
    """Source for a regular file. All reads use one descriptor."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.name = os.fspath(path)
        except TypeError as err:
            raise UnreadableError(f"not a path: {shown(path)}") from err
        try:
            # Without O_NONBLOCK, opening a FIFO would wait for a writer (API-13).
            self.fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as err:
            reason = getattr(err, "strerror", None) or err
            raise UnreadableError(f"{self.name}: {reason}") from err
        self.opened = os.fstat(self.fd)
        if not stat.S_ISREG(self.opened.st_mode):
            self.close()
            raise UnreadableError(f"{self.name}: not a regular file")
        self.size = self.opened.st_size

    def read(self, start: int, count: int) -> bytes:
        return _read_all(self._positioned, self.name, start, count)

    def _positioned(self, start: int, count: int) -> bytes:
        try:
            return os.pread(self.fd, count, start)
        except OSError as err:
            raise UnreadableError(f"{self.name}: {err.strerror or err}") from err


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes. Raises UnreadableError.

    This function is safe for untrusted files: it does not block on a FIFO or device, nor exhaust memory.
    """
    with PathSource(path) as source:
        if source.size > most:
            text = f"the file has {source.size:,} bytes, more than the limit of {most:,} bytes"
            raise UnreadableError(f"{source.name}: {text}")
        return source.read(0, source.size)


def shorter(name: str, at: int) -> UnreadableError:
    """Return the error for a file that became shorter after it was opened (API-11)."""
    text = f"{name}: the file became shorter while it was read, and has no data at byte {at:,}"
    return UnreadableError(text, "API_TRUNCATED", "API-11")


def unreadable(name: str, at: int, err: OSError) -> UnreadableError:
    return UnreadableError(f"{name}: at byte {at:,}: {err.strerror or err}")


def open_source(what: SourceLike) -> PathSource | MemorySource | FileSource:
    """Open ``what``. Raises UnreadableError if the file is missing, unreadable or not a regular file."""
    if isinstance(what, (str, os.PathLike)):
        return PathSource(what)
    try:
        return MemorySource(what)  # type: ignore[arg-type] # only a try shows it
    except TypeError:
        pass
    except (BufferError, ValueError) as err:
        raise UnreadableError(f"<bytes>: cannot be read: {err}") from err
    if not hasattr(what, "read"):
        raise UnreadableError(f"expected a path, bytes or a binary file, not {shown(what)}")
    return FileSource(what, str(getattr(what, "name", None) or "<file object>"))  # type: ignore[arg-type] # see above
