"""Measurement and eviction of the part of a file that is in the page cache (Linux only)."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

import numpy as np

COLD = 0.01
"""A file counts as cold if at most this share of it is in memory."""


class PageCacheError(Exception):
    """The page cache of this system cannot be inspected or changed."""


def resident(path: Path) -> float:
    """Return the share of a file's pages that are in memory, from 0.0 to 1.0. It is 1.0 for an empty file.

    Raises PageCacheError if the system cannot report it.
    """
    if sys.platform != "linux":
        raise PageCacheError("only Linux reports which pages of a file are in memory")
    size = path.stat().st_size
    if not size:
        return 1.0
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.mincore(
            ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data)
        )
        code = ctypes.get_errno()
        del view  # the mapping cannot be closed while an array refers to it
    if failed:
        raise PageCacheError(f"mincore: {os.strerror(code)}")
    return float((pages & 1).mean())


def evict(path: Path) -> float:
    """Flush a file, evict it from the page cache, and return the share that remains in memory.

    The share is 1.0 in an in-memory file system, and it is not 0 if a process maps the file. Raises
    PageCacheError if the system cannot report the share, and OSError if the file cannot be opened or flushed.
    """
    if sys.platform != "linux":
        raise PageCacheError("only Linux can evict a file from the page cache on request")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    return resident(path)


def warm(path: Path) -> None:
    """Read a file once so that as much of it as possible is in the page cache."""
    buffer = bytearray(16 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def filesystem(folder: Path) -> str:
    """Return the type of the file system of ``folder``, such as ``tmpfs``, or "unknown"."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    except OSError:
        return "unknown"
    here = folder.resolve()
    best, kind = -1, "unknown"
    for line in mounts:
        fields = line.split()
        place = Path(fields[1].replace("\\040", " "))
        # If several file systems are mounted on one path, only the last is visible.
        if len(place.parts) >= best and here.is_relative_to(place):
            best, kind = len(place.parts), fields[2]
    return kind
