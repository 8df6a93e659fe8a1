"""Peak memory of a load on the host and on the device."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

INTERVAL = 0.002
"""Seconds between two samples of the device's free memory."""


def host() -> dict[str, int]:
    """Return the resident memory in bytes (``rss``) and its peak (``hwm``), where available."""
    fields = {"VmRSS:": "rss", "VmHWM:": "hwm"}
    out: dict[str, int] = {}
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
            words = line.split()
            if words and words[0] in fields:
                out[fields[words[0]]] = int(words[1]) << 10
    return out


def forget_peak() -> bool:
    """Reset the peak of resident memory if the system supports it."""
    try:
        Path("/proc/self/clear_refs").write_text("5", "ascii")
    except OSError:
        return False
    return True


class DeviceMemory:
    """Memory of an accelerator, as reported by torch's allocator and by the driver.

    The driver counts all processes, so its figure is exact only if no other process uses the device. ``free``
    is the free memory before the first load, so memory that an allocator caches counts as used.
    """

    def __init__(self, device: str) -> None:
        """Initialise the device."""
        import torch

        self._module = torch.get_device_module(device)
        self._device = torch.device(device)
        self.free = self.free_now()

    def free_now(self) -> int:
        return int(self._module.mem_get_info(self._device)[0])

    def forget(self) -> None:
        """Release the cache of torch's allocator and reset its peak."""
        self._module.empty_cache()
        self._module.reset_peak_memory_stats(self._device)

    def torch_peak(self) -> int:
        return int(self._module.max_memory_allocated(self._device))

    def pinned(self) -> int | None:
        stats: Any = getattr(self._module, "host_memory_stats", dict)
        with suppress(RuntimeError):
            value = stats().get("allocated_bytes.peak")
            return None if value is None else int(value)
        return None


class Watch:
    """Samples the free memory of a device while a load runs."""

    def __init__(self, memory: DeviceMemory | None) -> None:
        """Prepare to sample ``memory``. If it is None, the watch does nothing."""
        self._memory = memory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.lowest: int | None = None

    def _look(self) -> None:
        assert self._memory is not None
        while True:
            free = self._memory.free_now()
            self.lowest = free if self.lowest is None else min(self.lowest, free)
            if self._stop.wait(INTERVAL):
                return

    def __enter__(self) -> Self:
        if self._memory is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._memory is not None:
            self._thread.join()
            # Nothing is released before the last sample, because the result still exists.
            self.lowest = min(self.lowest or self._memory.free, self._memory.free_now())
