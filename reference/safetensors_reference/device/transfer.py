"""Moves chunks from files to a device with several threads. A transfer either succeeds completely or fails.

The calling thread only waits, so Ctrl-C interrupts nothing but this wait. The first error stops all workers.
Each worker waits for its queued copies before it releases the buffer, even after an interrupt.

On the CPU, readers write directly to the target if they can. Otherwise, chunks are copied through a staging
ring. Pinning memory takes as long as copying it several times. Each process therefore has only one ring per
kind of memory, which all loads share. Slots are created on demand and reused.

A worker uses at most one slot and never waits for a second one, so loads cannot block each other. Workers get
slots in the order of their requests. As soon as its copy is queued, a worker returns its slot together with a
mark for the end of the copy. The next worker waits for that mark.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch

from ..rules.errors import AccessError, reason
from ..text import shown
from .engine import PAGE, DeviceError, Engine, Lane, device_errors, release_frames
from .plan import Chunk, Segment
from .readers import Reader

SLOT_BYTES = 8 << 20
SLOTS = 24
MAX_RING = 1 << 50


class Slot:
    """Page-aligned staging memory. ``mark`` is an event for the end of its last copy, or None."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.memory = memory
        self.view = memoryview(memory.numpy())
        self.mark: torch.Event | None = None

    def idle(self) -> bool:
        try:
            return self.mark is None or self.mark.query()
        except RuntimeError:
            return True  # ``wait`` will raise this error later, where it can be reported

    def wait(self) -> None:
        mark, self.mark = self.mark, None
        if mark is not None:
            mark.synchronize()


class Ring:
    """At most ``slots`` staging slots of ``slot_bytes`` bytes each. ``make`` allocates one slot."""

    def __init__(self, slots: int, slot_bytes: int, make: Callable[[int], torch.Tensor]) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.made = 0
        self._make = make
        self._free: deque[Slot] = deque()
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    def take(self, stopped: Callable[[], bool]) -> Slot | None:
        """Return a slot whose last copy is complete, or None if ``stopped()`` is true. Raises DeviceError."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                while True:
                    if stopped():
                        return None
                    if self._waiting[0] is ticket and (self._free or self.made < self.slots):
                        break
                    self._changed.wait()
                # Use the oldest slot first. Wait for a busy slot only if all slots have been created.
                slot = None
                if self._free and (self.made >= self.slots or self._free[0].idle()):
                    slot = self._free.popleft()
                else:
                    self.made += 1
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        if slot is None:
            return self._new()
        try:
            slot.wait()
        except BaseException:
            self.give(slot)
            raise
        return slot

    def _new(self) -> Slot:
        try:
            return Slot(self._make(self.slot_bytes))
        except BaseException as err:
            with self._changed:
                self.made -= 1
                self._changed.notify_all()
            if not isinstance(err, (RuntimeError, MemoryError, OSError)):
                raise
            text = f"there is not enough memory for a staging slot of {self.slot_bytes:,} bytes"
            hint = "use configure() to make the ring smaller before the first load"
            raise DeviceError(f"{text} ({reason(err)}); {hint}", "LIM_MEMORY", "LIM-06") from err

    def give(self, slot: Slot) -> None:
        with self._changed:
            self._free.append(slot)
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    @property
    def free(self) -> int:
        with self._changed:
            return len(self._free)

    def clear(self) -> None:
        """Free all slots that no load is using, as soon as their last copies are complete."""
        with self._changed:
            slots = list(self._free)
            self._free.clear()
            self.made -= len(slots)
            self._changed.notify_all()
        for slot in slots:
            slot.wait()


_lock = threading.Lock()
_rings: dict[bool, Ring] = {}
_size = (SLOTS, SLOT_BYTES)


def shared_ring(pinned: bool, make: Callable[[int], torch.Tensor]) -> Ring:
    with _lock:
        if pinned not in _rings:
            _rings[pinned] = Ring(*_size, make)
        return _rings[pinned]


def configure(slots: int = SLOTS, slot_bytes: int = SLOT_BYTES) -> None:
    """Set the size of the staging ring of this process. Call this function before the first load.

    Args:
        slots: maximum number of slots. With two slots per thread, reads and copies overlap.
        slot_bytes: size of a slot in bytes, a multiple of 4,096 and at least 16,384. Chunks cannot be larger
            than a slot. torch rounds pinned allocations up to a power of two, so other sizes waste memory.

    Raises AccessError if a size is invalid, or if a ring of a different size already exists.
    """
    global _size  # noqa: PLW0603 - one ring per process is the point
    if type(slots) is not int or type(slot_bytes) is not int or max(slots, slot_bytes) > MAX_RING:
        given = f"{shown(slots, 40)} and {shown(slot_bytes, 40)}"
        raise AccessError(f"slots and slot_bytes must be whole numbers that fit into memory, not {given}")
    if slots < 1 or slot_bytes < 4 * PAGE or slot_bytes % PAGE:
        text = f"a ring of {slots:,} slots of {slot_bytes:,} bytes is not possible"
        size = f"the size of a slot must be a multiple of {PAGE:,} bytes, {4 * PAGE:,} or more"
        raise AccessError(f"{text}: it needs at least one slot, and {size}")
    with _lock:
        if any((r.slots, r.slot_bytes) != (slots, slot_bytes) for r in _rings.values()):
            raise AccessError("the staging ring is already in use; configure it before the first load")
        _size = (slots, slot_bytes)


def free_staging() -> None:
    """Free the staging memory that no load is using. The next load allocates it again.

    torch keeps freed pinned memory until ``torch.accelerator.empty_host_cache`` is called.
    """
    with _lock:
        rings = list(_rings.values())
    for ring in rings:
        ring.clear()


def _reset_after_fork() -> None:
    """Discard the rings in a forked child. Freeing them would call CUDA, which would end the child."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for ring in _rings.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(ring))
    _rings.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


class Target(NamedTuple):
    """A file to read, and the device memory for its data, which is uint8[plan.size]."""

    reader: Reader
    segments: Sequence[Segment]
    memory: torch.Tensor


class Transfer:
    """One running load."""

    def __init__(self, targets: Sequence[Target], engine: Engine, ring: Ring, chunk: int) -> None:
        self._engine, self._ring = engine, ring
        self._jobs: Iterator[tuple[Target, Chunk]] = (
            (target, piece) for target in targets for piece in target.reader.chunks(target.segments, chunk)
        )
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []

    def run(self, threads: int) -> None:
        """Move all chunks or raise the first error. Afterwards all workers have returned their slots."""
        try:
            run_threads([self._work] * threads, self._halt, self._errors)
        finally:
            # The remaining jobs and the other errors would keep this object and its buffers alive.
            self._jobs = iter(())
            for err in self._errors[1:]:
                release_frames(err)

    def _halt(self) -> None:
        self._stop.set()
        self._ring.wake()

    def _work(self) -> None:
        lane: Lane | None = None
        try:
            if self._engine.cpus:
                os.sched_setaffinity(0, self._engine.cpus)  # of this thread, which ends with the load
            with device_errors(f"{self._engine.device} does not accept copies"):
                lane = self._engine.lane()
            while not self._stop.is_set():
                with self._lock:
                    job = next(self._jobs, None)
                if job is None or not self._move(*job, lane):
                    break
            with device_errors(f"copies to {self._engine.device} failed"):
                lane.close()
        except BaseException as err:  # raised again in the calling thread
            self._errors.append(err)
            self._halt()
        finally:
            if lane is not None and self._stop.is_set():
                with suppress(Exception):
                    lane.drain()

    def _move(self, target: Target, chunk: Chunk, lane: Lane) -> bool:
        into, reader = target.memory[chunk.at : chunk.at + chunk.size], target.reader
        where = f"{reader.source.name}: file bytes from {chunk.reads[0].file_at:,} onwards"
        with device_errors(f"{where} could not be copied to {self._engine.device}"):
            view = lane.host_view(into) if reader.in_place else None
            if view is not None:
                reader.fill(chunk, view)
                return True
            slot = self._ring.take(self._stop.is_set)
            if slot is None:
                return False
            try:
                start = reader.fill(chunk, slot.view)
                slot.mark = lane.copy(into, slot.memory[start : start + chunk.size])
            finally:
                # After a failed copy, the slot has no mark. If the copy was queued nevertheless, it may copy
                # the slot's next data, but its target is a buffer that is never returned.
                self._ring.give(slot)
        return True


class _Worker:
    """A thread that can be joined reliably; up to Python 3.12, interrupting ``Thread.join`` ends it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._over = False
        self._running = threading.Lock()
        self._running.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            # If the caller keeps the error, this frame stays alive. It must not keep the memory alive.
            del self._work
            self._over = True
            self._running.release()

    def start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as err:
            self._over = True
            del self._work  # breaks the cycle that would keep the memory alive
            raise DeviceError(f"a thread could not be started ({reason(err)}); use fewer threads") from err

    def wait(self) -> None:
        while not self._over:
            # An interrupted wait may have acquired the lock, so only the flag is reliable.
            if not self._running.acquire(timeout=1) and self._thread.ident is None:
                return  # interrupted just before the start
        if self._thread.ident is not None:
            self._thread.join()


def run_threads(
    works: Sequence[Callable[[], None]], halt: Callable[[], None], errors: Sequence[BaseException]
) -> None:
    """Run threads and raise the first of ``errors``. After an interrupt, call ``halt`` and wait for them."""
    started: list[_Worker] = []
    try:
        for work in works:
            worker = _Worker(work)
            started.append(worker)
            worker.start()
        for worker in started:
            worker.wait()
    except BaseException:
        halt()
        for worker in started:
            worker.wait()
        raise
    if errors:
        raise errors[0]
