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
from safetensors_reference.device.transfer import Ring

from ..support import raw_bytes
from .support import LateLane, data_of, file_of, install, tracked

FILE = file_of([(f"t{i:02}", "U8", [1000 + i]) for i in range(40)], 3)
STEPS = "allocate ready staging lane copy copied mark close preadv views unchanged".split()  # noqa: SIM905
THREADS = 3


class BrokenError(RuntimeError):
    """What breaks in these tests."""


class PassedError(Exception):
    """Raised by a step that goes on after all."""


class Trigger:
    """Raises when the armed step is reached for the ``turn``-th time."""

    def __init__(self, step: str, turn: int, error: Callable[[], BaseException]) -> None:
        self.step = step
        self.turn = turn
        self.error = error
        self._lock = threading.Lock()

    def __call__(self, step: str) -> None:
        with self._lock:
            if step != self.step:
                return
            self.turn -= 1
            if self.turn:
                return
        error = self.error()
        if not isinstance(error, PassedError):
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


def arm(
    patch: pytest.MonkeyPatch, step: str, turn: int, error: Callable[[], BaseException]
) -> tuple[FaultyEngine, Ring]:
    """Have the next load fail at a step."""
    trigger = Trigger(step, turn, error)
    engine = FaultyEngine(trigger)
    ring = install(patch, engine, slots=2)

    def triggering(step: str, real: Callable[..., Any], late: bool = False) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not late:
                trigger(step)
            result = real(*args)
            if late:
                trigger(step)
            return result

        return call

    patch.setattr(os, "preadv", triggering("preadv", os.preadv))
    patch.setattr(load_module, "make_views", triggering("views", make_views, late=True))
    patch.setattr(load_module, "check_unchanged", triggering("unchanged", buffers.check_unchanged))
    return engine, ring


def load(path: Path) -> Any:
    return load_file(path, device="cpu", chunk=900, threads=THREADS)


def running() -> set[threading.Thread]:
    """Return the threads that run; one whose start was interrupted is listed by Python for ever."""
    return {thread for thread in threading.enumerate() if thread.ident is not None}


def assert_clean(engine: FaultyEngine, ring: Ring, path: Path, before: set[threading.Thread]) -> None:
    """Nothing is left of the load that failed, and the next one works with the same ring."""
    limit = time.monotonic() + 10
    while running() - before and time.monotonic() < limit:
        time.sleep(0.001)  # a thread whose work is over may not be gone yet
    assert not running() - before  # those of other tests may have ended meanwhile
    assert ring.free == ring.made
    assert not any(memory() for memory in engine.memories), "freed at once, not when cycles are collected"
    assert b"".join(map(raw_bytes, load(path).values())) == data_of(path.read_bytes())
    assert ring.free == ring.made
