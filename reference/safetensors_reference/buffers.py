"""The data buffer in memory: copied, or mapped from the file.

Copying is the default for untrusted files: the result cannot change or vanish. Page faults on new memory
dominate such loads, so a large buffer is one anonymous mapping whose pages are made in bulk and filled by a
few threads. Mapping is the fast mode: private, writable and never written back. But if the file is cut while
mapped, touching the missing part ends the process (API-11).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from contextlib import suppress
from typing import Literal

from .pages import HUGE, HUGE_FROM, Pages
from .rules.errors import AccessError
from .source import PathSource, Source, UnreadableError, shorter

Mode = Literal["copy", "mmap"]

THREADED_FROM = HUGE_FROM
MAX_READ = HUGE
"""Bytes whose pages a thread makes and then fills while they are cached."""
THREADS = min(4, max(2, os.cpu_count() or 2))


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_range(source: Source, start: int, count: int) -> memoryview:
    """Return file bytes in new memory. Raises UnreadableError (API_TRUNCATED), MemoryError."""
    check_unchanged(source)
    if not isinstance(source, PathSource):
        return memoryview(bytearray(source.read(start, count)))
    if count < THREADED_FROM:
        view = memoryview(bytearray(count))
        _read_into(source, start, view)
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
                _read_into(source, start + at, piece)
        except BaseException as err:  # raised in the caller below
            errors.append(err)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS - 1)]
    try:
        with suppress(RuntimeError):  # without further threads, this one does the work
            for thread in threads:
                thread.start()
        work()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    except BaseException as err:
        errors.append(err)  # stops the other threads, which use the memory until then
        raise
    if errors:
        raise errors[0]


def _read_into(source: PathSource, start: int, view: memoryview) -> None:
    done = 0
    while done < len(view):
        try:
            count = os.preadv(source.fd, [view[done:]], start + done)
        except OSError as err:
            raise UnreadableError(f"{source.name}: {err.strerror or err}") from err
        if count == 0:
            raise shorter(source.name, start + done)
        done += count


def check_unchanged(source: Source) -> None:
    """Raise AccessError if size or time show that the file was cut or rewritten (API-11, API-12)."""
    if not isinstance(source, PathSource):
        return
    if source.fd < 0:
        raise AccessError(f"{source.name}: the file is closed", "API_CLOSED", "API-10")
    now = os.fstat(source.fd)
    if now.st_size != source.opened.st_size or now.st_mtime_ns != source.opened.st_mtime_ns:
        change = "became shorter" if now.st_size < source.opened.st_size else "was modified"
        raise AccessError(f"{source.name}: {change} after it was opened", "API_TRUNCATED", "API-11")


def map_file(source: Source) -> memoryview:
    if not isinstance(source, PathSource):
        raise AccessError(f"{source.name}: only a path can be mapped; use mode='copy'", "UNCLASSIFIED", None)
    check_unchanged(source)
    try:
        return memoryview(mmap.mmap(source.fd, source.size, access=mmap.ACCESS_COPY))
    except (OSError, ValueError) as err:
        raise UnreadableError(f"{source.name}: cannot be mapped: {err}") from err
