"""A load that can be made to fail at any step."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from safetensors_reference.device import load as load_module
from safetensors_reference.device import load_file
from safetensors_reference.device.engine import CpuEngine

from ..support import raw_bytes
from .support import LateLane, at_turn, data_of, file_of, install, tracked, write

FILE = file_of([(f"t{i:02}", "U8", [1000 + i]) for i in range(40)], 3)
THREADS = 3


class BrokenError(RuntimeError):
    """What breaks in these tests."""


class TrackingEngine(CpuEngine):
    """Copies late, and knows all memory that it has given."""

    def __init__(self) -> None:
        super().__init__()
        # No counters: an interrupt may fall between an allocation, or a finaliser, and its count.
        self.memories: list[weakref.ref[Any]] = []

    def allocate(self, size: int) -> torch.Tensor:
        return tracked(size, self.memories)

    def lane(self) -> Any:
        return LateLane(self.pages)


STEPS: dict[str, tuple[object, str]] = {
    **{step: (TrackingEngine, step) for step in ("allocate", "ready", "staging", "lane")},
    "start": (threading.Thread, "start"),
    "copied": (LateLane, "copy"),
    "copy": (LateLane, "copy"),
    "mark": (LateLane, "synchronize"),
    "close": (LateLane, "close"),
    "preadv": (os, "preadv"),
    "views": (load_module, "make_views"),
    "unchanged": (load_module, "check_unchanged"),
}
"""Step of a load -> the function that makes it."""
LATE = ("copied", "views")
"""Steps that are reached when their function has done its work."""


class Faults:
    """A file, and a next load of it that can be armed to fail."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = write(folder, FILE)
        self._patch = patch
        self.engine = TrackingEngine()
        self.ring = install(patch, self.engine, slots=2)
        self._before = set(threading.enumerate())

    def arm(self, step: str, turn: int, act: Callable[[], object]) -> None:
        """Have something happen at a step of the next load, and an error raised that it returns."""

        def fault() -> None:
            error = act()
            if isinstance(error, BaseException):
                raise error
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0.05)  # the calling thread is interrupted while workers are at work

        place, name = STEPS[step]
        self._patch.setattr(place, name, at_turn(getattr(place, name), turn, fault, step in LATE))
        self.ring = install(self._patch, self.engine, slots=2)

    def load(self) -> Any:
        return load_file(self.path, device="cpu", chunk=900, threads=THREADS)

    def wait_for_threads(self) -> None:
        limit = time.monotonic() + 10
        while self._running() and time.monotonic() < limit:
            time.sleep(0.001)  # a thread whose work is over may not be gone yet

    def _running(self) -> set[threading.Thread]:
        """Return new threads that run; one whose start was interrupted is listed by Python for ever."""
        return {one for one in threading.enumerate() if one.ident is not None} - self._before

    def assert_clean(self) -> None:
        """Nothing is left of the load that failed, and the next one works with the same ring."""
        self.wait_for_threads()
        assert not self._running()
        assert self.ring.free == self.ring.made
        assert not any(memory() for memory in self.engine.memories), "freed at once, not by the collector"
        assert b"".join(map(raw_bytes, self.load().values())) == data_of(self.path.read_bytes())
        assert self.ring.free == self.ring.made
