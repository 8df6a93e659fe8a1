"""What the kernel keeps of a file in memory: how much it is, and putting it out (Linux only)."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

import numpy as np

COLD = 0.01
"""A file counts as cold when no more than this share of it is in memory."""


class PageCacheError(Exception):
    """The state of the page cache cannot be found out or changed here."""


def resident(path: Path) -> float:
    """Return the share of a file's pages that are in memory, from 0.0 to 1.0; 1.0 for an empty file.

    Raises PageCacheError where the system cannot tell.
    """
    if sys.platform != "linux":
        raise PageCacheError("only Linux tells which pages of a file are in memory")
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
        del view  # the mapping cannot be closed while it is looked at
    if failed:
        raise PageCacheError(f"mincore: {os.strerror(code)}")
    return float((pages & 1).mean())


def evict(path: Path) -> float:
    """Write a file out, put it out of the page cache and return the share that is in memory all the same.

    That share is 1.0 in a memory file system, and not 0 while some process has the file mapped. Raises
    PageCacheError where the system cannot tell, OSError when the file cannot be opened or written out.
    """
    if sys.platform != "linux":
        raise PageCacheError("only Linux puts a file out of the page cache on request")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    return resident(path)


def warm(path: Path) -> None:
    """Read a file once, so that it is in the page cache as far as it fits."""
    buffer = bytearray(16 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def filesystem(folder: Path) -> str:
    """Return the type of the file system that holds ``folder``, such as ``tmpfs``; "unknown" if not told."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    except OSError:
        return "unknown"
    here = folder.resolve()
    best, kind = -1, "unknown"
    for line in mounts:
        fields = line.split()
        place = Path(fields[1].replace("\\040", " "))
        # Of several on one place the last one is seen.
        if len(place.parts) >= best and here.is_relative_to(place):
            best, kind = len(place.parts), fields[2]
    return kind
