"""Loads the data buffer into memory, either by copying it or by mapping the file.

Copying is the default because it is safe for untrusted files: the result cannot change or vanish later. A
copy spends most of its time on page faults in new memory. Large buffers are therefore allocated as a single
anonymous mapping, whose pages are populated in bulk and filled by a few threads.

Mapping is faster. The mapping is private and writable, and changes are never written back to the file.
However, if the file is truncated while it is mapped, accessing the missing part kills the process (API-11).

Populating a huge page takes about half as long as populating the small pages that it replaces. However, the
system may spend longer searching for a free huge page than the whole load takes. Each request is therefore
timed. After a slow request, the rest of the memory uses small pages.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from ..rules.errors import AccessError
from ..source import PathSource, Source, UnreadableError, shorter, unreadable

Mode = Literal["copy", "mmap"]

HUGE = 2 << 20
"""Size of a huge page in bytes, which is also the alignment of memory for huge pages."""
HUGE_FROM = 8 << 20
SLOW = 1e-3
"""Processor seconds above which populating a huge page is slow. The small pages take about half as long."""
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_POPULATE_WRITE = 14, 15, 23
_madvise = ctypes.CDLL(None).madvise if sys.platform == "linux" else None
THREADED_FROM = HUGE_FROM
MAX_READ = HUGE
"""Bytes that a thread populates at a time. They are still in the cache when the thread fills them."""
MAX_PIECES = max(16, os.sysconf("SC_IOV_MAX")) if hasattr(os, "sysconf") else 16
"""Maximum number of buffers that one system call fills."""
THREADS = min(4, max(2, os.cpu_count() or 2))


class Pages:
    """Memory for one load. On Linux 5.14 and later, the pages of this memory are populated in bulk."""

    def __init__(self) -> None:
        self._huge: list[tuple[int, int]] = []

    def new(self, size: int) -> memoryview:
        """Return ``size`` bytes of zeroed memory whose pages are not yet populated. Raises MemoryError."""
        room = HUGE if size >= HUGE_FROM else 0
        try:
            memory = mmap.mmap(-1, size + room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as err:
            raise MemoryError from err
        if not room:
            return memoryview(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        skipped = -start % HUGE
        if _advise(start + skipped, size, MADV_HUGEPAGE):
            self._huge.append((start + skipped, size))
        return memoryview(memory)[skipped : skipped + size]

    def make(self, address: int, size: int) -> None:
        """Populate all pages in a range of memory with one call, which costs less than many page faults."""
        low = address - address % mmap.PAGESIZE
        start = time.thread_time()
        _advise(low, address + size - low, MADV_POPULATE_WRITE)
        if self._huge and time.thread_time() - start > SLOW * (1 + size // HUGE):
            slow, self._huge = self._huge, []
            for memory in slow:
                _advise(*memory, MADV_NOHUGEPAGE)


def _advise(address: int, size: int, advice: int) -> bool:
    # ``mmap.madvise`` would block other threads.
    if _madvise is None:
        return False
    return bool(_madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice) == 0)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_range(source: Source, start: int, count: int) -> memoryview:
    """Return ``count`` bytes of the file in new memory. Raises UnreadableError or MemoryError."""
    check_unchanged(source)
    if not isinstance(source, PathSource):
        return memoryview(bytearray(source.read(start, count)))
    if count < THREADED_FROM:
        view = memoryview(bytearray(count))
        read_into(source, start, [view])
        return view
    pages = Pages()
    view = pages.new(count)
    _fill(source, start, view, pages)
    check_unchanged(source)
    return view


def _fill(source: PathSource, start: int, view: memoryview, pages: Pages) -> None:
    pieces = iter(range(0, len(view), MAX_READ))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not errors:
                with lock:
                    at = next(pieces, None)
                if at is None:
                    return
                piece = view[at : at + MAX_READ]
                pages.make(ctypes.addressof(ctypes.c_char.from_buffer(piece)), len(piece))
                read_into(source, start + at, [piece])
        except BaseException as err:  # raised later by the calling thread
            errors.append(err)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS - 1)]
    try:
        with suppress(RuntimeError):  # if no thread can be started, this thread does all the work
            for thread in threads:
                thread.start()
        work()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    except BaseException as err:
        errors.append(err)  # stops the other threads, which are still using the memory
        raise
    if errors:
        raise errors[0]


def read_into(source: PathSource, start: int, views: Sequence[memoryview]) -> None:
    """Fill ``views``, one after the other, with the bytes from ``start`` on. Raises UnreadableError."""
    pending = [view for view in views if len(view)]
    first = 0
    while first < len(pending):
        try:
            count = os.preadv(source.fd, pending[first : first + MAX_PIECES], start)
        except OSError as err:
            raise unreadable(source.name, start, err) from err
        if count == 0:
            raise shorter(source.name, start)
        start += count
        while count:
            if count < len(pending[first]):
                pending[first] = pending[first][count:]
                break
            count -= len(pending[first])
            first += 1


def check_unchanged(source: Source) -> None:
    """Raise AccessError if the file's size or modification time has changed (API-11, API-12)."""
    if not isinstance(source, PathSource):
        return
    if source.fd < 0:
        raise AccessError(f"{source.name}: the file is closed", "API_CLOSED", "API-10")
    now = os.fstat(source.fd)
    if now.st_size != source.opened.st_size or now.st_mtime_ns != source.opened.st_mtime_ns:
        change = "became shorter" if now.st_size < source.opened.st_size else "was modified"
        raise AccessError(f"{source.name}: the file {change} after it was opened", "API_TRUNCATED", "API-11")


def map_file(source: Source) -> memoryview:
    if not isinstance(source, PathSource):
        raise AccessError(f"{source.name}: only a path can be mapped; use mode='copy'", "UNCLASSIFIED", None)
    check_unchanged(source)
    try:
        return memoryview(mmap.mmap(source.fd, source.size, access=mmap.ACCESS_COPY))
    except (OSError, ValueError) as err:
        raise UnreadableError(f"{source.name}: cannot be mapped: {err}") from err
