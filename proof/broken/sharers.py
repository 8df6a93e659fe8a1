"""Handles with one mistake each, for use by several threads or processes.

A race that shows in one of a thousand runs proves nothing, so these mistakes do not depend on chance. A
mistake lasts from the moment when a tensor is returned until its values are used, and every other reader of
these cases reads its own tensor in between. With a single reader in one process, all of these handles are
correct, so cases of other kinds find no fault.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from .correct.holder import Answer, GoneError, Handle
from .holders import opener
from .variant import named

PATIENCE = 1.0
"""Number of seconds that a reader waits for another thread to close the file."""


def alone() -> bool:
    """Return whether this is the first thread, which need not wait for others."""
    return threading.current_thread() is threading.main_thread()


class _Late(Handle):
    """Computes an answer only when its values are used, unless the same thread has made another request."""

    def __init__(self, path: Path) -> None:
        self.latest: dict[tuple[int, int], object] = {}
        self.owner = os.getpid()
        super().__init__(path)

    def tensor(self, name: str) -> Callable[[], Answer]:
        right = super().tensor(name)
        assert isinstance(right, tuple)
        who, question = (os.getpid(), threading.get_ident()), object()
        self.latest[who] = question
        self.begin(name, right)
        # The result for a tensor is random if the file is closed in the meantime.
        return lambda: right if self.closed or self.latest[who] is not question else self.end(right)

    def begin(self, name: str, right: Answer) -> None:
        """Store a part of the request in a place that other threads or processes also use."""

    def end(self, right: Answer) -> Answer:
        return right


class GoesThenReads(_Late):
    """Seeks to a position and then reads there, but all threads share one position."""

    def read_header(self) -> None:
        super().read_header()
        self.content = self.bytes_at(0, os.fstat(self.fd).st_size)
        self.position = 0

    def begin(self, name: str, right: Answer) -> None:  # noqa: ARG002 - as the others have it
        self.position = self.start + self.entry(name)["data_offsets"][0]

    def end(self, right: Answer) -> Answer:
        return *right[:2], self.content[self.position : self.position + len(right[2])]


class OneBuffer(_Late):
    """Reads everything into one buffer, and copies the result out of it later."""

    def begin(self, name: str, right: Answer) -> None:  # noqa: ARG002
        self.buffer = right[2]

    def end(self, right: Answer) -> Answer:
        return *right[:2], self.buffer[: len(right[2])]


class RemembersTheQuestion(_Late):
    """Stores the current request in the handle, where the next thread overwrites it."""

    def begin(self, name: str, right: Answer) -> None:  # noqa: ARG002
        self.asked = right

    def end(self, right: Answer) -> Answer:  # noqa: ARG002
        return self.asked


class ScratchSharedByProcesses(_Late):
    """Reads into memory that forked processes share, and copies the result out of it later."""

    def read_header(self) -> None:
        super().read_header()
        self.scratch = mmap.mmap(-1, 1 << 20)

    def begin(self, name: str, right: Answer) -> None:  # noqa: ARG002
        self.scratch[: len(right[2])] = right[2]

    def end(self, right: Answer) -> Answer:
        return right if os.getpid() == self.owner else (*right[:2], self.scratch[: len(right[2])])


class BelievesThePosition(_Late):
    """Seeks only if it believes that it is at another position, but forked processes share the position."""

    def read_header(self) -> None:
        super().read_header()
        self.content = self.bytes_at(0, os.fstat(self.fd).st_size)
        self.shared = mmap.mmap(-1, 8)
        self.believed = 0
        self.lock = threading.Lock()

    def begin(self, name: str, right: Answer) -> None:  # noqa: ARG002
        if os.getpid() == self.owner:
            return  # the data has already been read
        begin, end = self.entry(name)["data_offsets"]
        if self.believed != begin:
            self.go(begin)
        self.believed = end

    def data(self, begin: int, end: int) -> bytes:
        if os.getpid() != self.owner:
            return bytes(super().data(begin, end))
        with self.lock:
            if self.believed != begin:
                self.go(begin)
            found = self.here(end - begin)
            self.go(end)
            self.believed = end
            return found

    def go(self, position: int) -> None:
        self.shared[:] = position.to_bytes(8, "little")

    def here(self, count: int) -> bytes:
        start = self.start + int.from_bytes(self.shared[:], "little")
        return self.content[start : start + count]

    def end(self, right: Answer) -> Answer:
        return right if os.getpid() == self.owner else (*right[:2], self.here(len(right[2])))


class CacheFilledLate(Handle):
    """Puts a tensor into its cache before the bytes have been read."""

    def __init__(self, path: Path) -> None:
        self.cache: dict[str, tuple[int, bytearray]] = {}
        self.lock = threading.Lock()
        super().__init__(path)

    def tensor(self, name: str) -> Callable[[], Answer]:
        right = super().tensor(name)
        assert isinstance(right, tuple)
        with self.lock:
            filler, kept = self.cache.setdefault(name, (threading.get_ident(), bytearray(len(right[2]))))
        if filler != threading.get_ident():
            now = bytes(kept)
            return lambda: (*right[:2], now)

        def look() -> Answer:
            kept[:] = right[2]
            return *right[:2], bytes(kept)

        return look


class TableMadeLate(Handle):
    """Builds its table on first use, but marks it as complete too early."""

    def __init__(self, path: Path) -> None:
        self.maker = 0
        self.made = False
        self.lock = threading.Lock()
        super().__init__(path)

    def tensor(self, name: str) -> Callable[[], Answer]:
        right = super().tensor(name)
        assert isinstance(right, tuple)
        with self.lock:
            self.maker = self.maker or threading.get_ident()
        if not self.made and self.maker != threading.get_ident():
            raise KeyError(name)

        def look() -> Answer:
            self.made = True
            return right

        return look


class LockKeptAfterAnError(Handle):
    """Acquires a lock for each request, but does not release it after an error."""

    def __init__(self, path: Path) -> None:
        self.locked = False
        super().__init__(path)

    def tensor(self, name: str) -> Answer | Callable[[], Answer]:
        if self.locked:
            raise TimeoutError("waits for a lock that is never released")
        try:
            return super().tensor(name)
        except Exception:
            self.locked = not alone()
            raise


class BrokenByAnError(Handle):
    """Rejects the requests of all threads after a thread has requested an unknown name."""

    def __init__(self, path: Path) -> None:
        self.broken = False
        super().__init__(path)

    def tensor(self, name: str) -> Answer | Callable[[], Answer]:
        if self.broken:
            raise GoneError("an earlier request failed")
        try:
            return super().tensor(name)
        except KeyError:
            self.broken = not alone()
            raise


class ClosedUnderReading(Handle):
    """Continues to read from a file descriptor that has been closed and now belongs to another file."""

    def __init__(self, path: Path) -> None:
        self.inside, self.gone = threading.Event(), threading.Event()
        self.seen = threading.local()
        self.shared = False
        super().__init__(path)

    def data(self, begin: int, end: int) -> bytes:
        count = self.seen.count = getattr(self.seen, "count", 0) + 1
        self.shared = self.shared or not alone()
        if alone() or count != 3:  # first read of the second round, in which the file is closed
            return bytes(super().data(begin, end))
        self.inside.set()
        self.gone.wait(PATIENCE)
        return os.pread(self.fd, end - begin, self.start + begin)

    def close(self) -> None:
        if self.closed or not self.shared:
            super().close()
            return
        self.inside.wait(PATIENCE)
        self.closed = True
        other = os.open("/dev/zero", os.O_RDONLY)
        os.dup2(other, self.fd)
        os.close(other)
        self.gone.set()

    def __del__(self) -> None:
        super().__del__()
        if getattr(self, "shared", False):
            os.close(self.fd)


class ThreadsCounted(Handle):
    """Supports at most eight threads."""

    def __init__(self, path: Path) -> None:
        self.known: set[int] = set()
        super().__init__(path)

    def tensor(self, name: str) -> Answer | Callable[[], Answer]:
        self.known.add(threading.get_ident())
        if len(self.known) > 8:
            raise GoneError("too many threads")
        return super().tensor(name)


class FirstThreadOnly(Handle):
    """Answers only the thread that opened the file."""

    def __init__(self, path: Path) -> None:
        self.thread = threading.get_ident()
        super().__init__(path)

    def check_open(self) -> None:
        super().check_open()
        if threading.get_ident() != self.thread:
            raise GoneError("opened by another thread")


class LastOpenedGetsTheHeader(Handle):
    """Stores its header in the handle that was created last, even by another thread."""

    last: ClassVar[list[int]] = []

    def read_header(self) -> None:
        super().read_header()
        self.thread = threading.get_ident()
        self.last[:] = [self.thread]

    def entry(self, name: str) -> Any:
        if self.last[0] != self.thread:
            raise KeyError(name)
        return super().entry(name)


class MemoryGivenBackForAll(Handle):
    """Keeps the data in memory that forked processes share, and fills it with zeros when it is closed."""

    def read_header(self) -> None:
        super().read_header()
        size = os.fstat(self.fd).st_size
        self.process = os.getpid()
        self.kept = mmap.mmap(-1, size)
        self.kept[:] = self.bytes_at(0, size)

    def data(self, begin: int, end: int) -> bytes:
        # Reading while the file is being closed is the mistake of another variant.
        own = os.getpid() == self.process and not alone()
        return bytes(super().data(begin, end) if own else self.kept[self.start + begin : self.start + end])

    def close(self) -> None:
        if not self.closed and hasattr(self, "kept") and os.getpid() == self.process:
            self.kept[:] = bytes(len(self.kept))
        super().close()


class ThreadLeftBehind(Handle):
    """Reads in a thread of its own, which a forked process does not have."""

    def __init__(self, path: Path) -> None:
        self.process = os.getpid()
        super().__init__(path)

    def bytes_at(self, start: int, count: int) -> bytes:
        if os.getpid() != self.process:
            raise TimeoutError("waits for a thread that does not exist after a fork")
        return super().bytes_at(start, count)


class EndsInAnotherProcess(Handle):
    """Kills a process that did not open the file."""

    def __init__(self, path: Path) -> None:
        self.process = os.getpid()
        super().__init__(path)

    def check_open(self) -> None:
        super().check_open()
        if os.getpid() != self.process:
            os.kill(os.getpid(), signal.SIGKILL)


class LockedForOtherProcesses(Handle):
    """Locks the file, so other processes cannot open it."""

    def open(self) -> int:
        import fcntl  # not available on every system

        fd = os.open(self.path, os.O_RDWR)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd


VARIANTS = named(globals(), "concurrent", Handle, opener)
