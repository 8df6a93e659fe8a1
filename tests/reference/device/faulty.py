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

from safetensors_reference.arrays import buffers
from safetensors_reference.arrays.buffers import Pages
from safetensors_reference.arrays.torch import make_views
from safetensors_reference.device import load as load_module
from safetensors_reference.device import load_file
from safetensors_reference.device.engine import CpuEngine

from ..support import raw_bytes
from .support import LateLane, data_of, file_of, install, tracked, write

FILE = file_of([(f"t{i:02}", "U8", [1000 + i]) for i in range(40)], 3)
STEPS = "allocate ready start staging lane copy copied mark close preadv views unchanged".split()  # noqa: SIM905
THREADS = 3


class BrokenError(RuntimeError):
    """What breaks in these tests."""


class Trigger:
    """Acts when the armed step is reached for the ``turn``-th time, and raises the error that it gets."""

    def __init__(self, step: str, turn: int, act: Callable[[], object]) -> None:
        self.step = step
        self.turn = turn
        self.act = act
        self._lock = threading.Lock()

    def __call__(self, step: str) -> None:
        with self._lock:
            if step != self.step:
                return
            self.turn -= 1
            if self.turn:
                return
        error = self.act()
        if isinstance(error, BaseException):
            raise error
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.05)  # the calling thread is interrupted while workers are at work


class FaultyLane(LateLane):
    """Any step may fail, before or after it is done."""

    def __init__(self, trigger: Trigger, pages: Pages) -> None:
        super().__init__(pages)
        self._trigger = trigger

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> FaultyLane:
        self._trigger("copy")
        super().copy(target, staged)
        self._trigger("copied")
        return self

    def synchronize(self) -> None:
        self._trigger("mark")
        self.drain()

    def close(self) -> None:
        self._trigger("close")
        self.drain()


class FaultyEngine(CpuEngine):
    """Any step may fail."""

    def __init__(self, trigger: Trigger) -> None:
        super().__init__()
        self.trigger = trigger
        # No counters: an interrupt may fall between an allocation, or a finaliser, and its count.
        self.memories: list[weakref.ref[Any]] = []

    def allocate(self, size: int) -> torch.Tensor:
        self.trigger("allocate")
        return tracked(size, self.memories)

    def staging(self, size: int) -> torch.Tensor:
        self.trigger("staging")
        return super().staging(size)

    def ready(self) -> None:
        self.trigger("ready")

    def lane(self) -> Any:
        self.trigger("lane")
        return FaultyLane(self.trigger, self.pages)


class Faults:
    """A file, and a next load of it that can be armed to fail."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = write(folder, FILE)
        self._patch = patch
        self._before = set(threading.enumerate())

    def arm(self, step: str, turn: int, act: Callable[[], object]) -> None:
        """Have something happen at a step of the next load."""
        trigger = Trigger(step, turn, act)
        self.engine = FaultyEngine(trigger)
        self.ring = install(self._patch, self.engine, slots=2)

        def triggering(step: str, real: Callable[..., Any], late: bool = False) -> Callable[..., Any]:
            def call(*args: Any) -> Any:
                if not late:
                    trigger(step)
                result = real(*args)
                if late:
                    trigger(step)
                return result

            return call

        self._patch.setattr(os, "preadv", triggering("preadv", os.preadv))
        self._patch.setattr(threading.Thread, "start", triggering("start", threading.Thread.start))
        self._patch.setattr(load_module, "make_views", triggering("views", make_views, late=True))
        self._patch.setattr(load_module, "check_unchanged", triggering("unchanged", buffers.check_unchanged))

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
