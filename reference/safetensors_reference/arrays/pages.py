"""Allocates memory for large loads, populates its pages in bulk, and uses huge pages where those are fast.

Page faults on new memory limit the speed of loads that copy. A huge page takes about half as long as the
small pages that it replaces. However, if the system has to search for one, it may take longer than the load.
Each request is therefore timed, and after a slow one, the rest of the memory uses small pages.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import time

HUGE = 2 << 20
"""Size of a huge page in bytes, which is also the alignment of memory for huge pages."""
HUGE_FROM = 8 << 20
SLOW = 1e-3
"""Processor time in seconds above which a huge page is slow. The small pages take about half as long."""
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_POPULATE_WRITE = 14, 15, 23
_madvise = ctypes.CDLL(None).madvise if sys.platform == "linux" else None


class Pages:
    """Memory for one load. On Linux 5.14 and later, its pages are populated in bulk.

    This class calls ``madvise`` directly, because ``mmap.madvise`` would block other threads.
    """

    def __init__(self) -> None:
        self._huge: list[tuple[int, int]] = []

    def new(self, size: int) -> memoryview:
        """Return zeroed memory whose pages are not yet populated, as uint8[size]. Raises MemoryError."""
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
        """Populate the pages of ``size`` bytes in one call, which is cheaper than many page faults."""
        low = address - address % mmap.PAGESIZE
        start = time.thread_time()
        _advise(low, address + size - low, MADV_POPULATE_WRITE)
        if self._huge and time.thread_time() - start > SLOW * (1 + size // HUGE):
            slow, self._huge = self._huge, []
            for memory in slow:
                _advise(*memory, MADV_NOHUGEPAGE)


def _advise(address: int, size: int, advice: int) -> bool:
    if _madvise is None:
        return False
    return bool(_madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice) == 0)
