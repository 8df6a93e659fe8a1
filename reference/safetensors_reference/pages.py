"""New memory for large loads, whose pages are made in bulk, huge ones while they come quickly.

Loads that copy are bound by page faults on new memory. One huge page costs about half of what the small
pages in its place cost, as long as the system has it at hand; looking for one can take longer than the whole
load. So each request is timed, and after one that took too long the rest of the memory has small pages.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import time

HUGE = 2 << 20
"""Size of a huge page in bytes, and alignment of memory that is to have some."""
HUGE_FROM = 8 << 20
"""Memory from this size in bytes on is to have huge pages."""
SLOW = 1e-3
"""Processor time in seconds after which a huge page came slowly: small pages take about half of it."""
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_POPULATE_WRITE = 14, 15, 23
_madvise = ctypes.CDLL(None).madvise if sys.platform == "linux" else None


class Pages:
    """The new memory of one load.

    Called through ctypes because ``mmap.madvise`` would hold up the other threads. Only Linux 5.14 and later
    know how to make pages in bulk; elsewhere they come one by one.
    """

    def __init__(self) -> None:
        self._huge: list[tuple[int, int]] = []

    def new(self, size: int) -> memoryview:
        """Return writable memory, zero, which costs nothing until it is touched: uint8[size].

        Raises MemoryError.
        """
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
        """Have the kernel make the pages of ``size`` bytes at once: cheaper than a fault for each."""
        low = address - address % mmap.PAGESIZE
        began = time.thread_time()
        _advise(low, address + size - low, MADV_POPULATE_WRITE)
        if self._huge and time.thread_time() - began > SLOW * (1 + size // HUGE):
            slow, self._huge = self._huge, []
            for memory in slow:
                _advise(*memory, MADV_NOHUGEPAGE)


def _advise(address: int, size: int, advice: int) -> bool:
    if _madvise is None:
        return False
    return bool(_madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice) == 0)
