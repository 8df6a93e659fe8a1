"""Moving chunks from files to a device with several threads, all or nothing.

The calling thread only waits, so that Ctrl-C finds it there and nowhere else. The first error stops all
workers; each of them waits for its own queued copies before it lets go of the buffer, also when its own end
is no longer waited for.

On the CPU, reads go to where the bytes belong if they can. All others go into a staging ring, from which
copies to the device start. Pinning memory costs about as much as copying it several times, so there is one
ring per process and kind of memory, shared by all loads and never larger than configured. A slot is made when
it is first needed and kept from then on.

A worker holds one slot at a time, and never while it waits for another, so loads cannot block one another.
Slots are given to workers in the order in which they asked. A slot comes back as soon as its copy is queued,
with a mark behind that copy; the worker that gets it next waits for the mark.
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

from ..rules.errors import AccessError, SafetensorsError, reason
from ..rules.faults import shown
from .engine import PAGE, DeviceError, Engine, Lane, Mark, release_frames
from .plan import Chunk, Segment
from .readers import Reader

SLOT_BYTES = 8 << 20
SLOTS = 24
MAX_RING = 1 << 50


class Slot:
    """A piece of staging memory, which begins on a page.

    Attributes:
        memory: one-dimensional uint8 tensor.
        view: the same bytes, to read into.
        mark: behind the last copy from this slot, None when there is none to wait for.
    """

    def __init__(self, memory: torch.Tensor) -> None:
        self.memory = memory
        self.view = memoryview(memory.numpy())
        self.mark: Mark | None = None

    def idle(self) -> bool:
        try:
            return self.mark is None or self.mark.query()
        except RuntimeError:
            return True  # ``wait`` raises it where it is reported

    def wait(self) -> None:
        mark, self.mark = self.mark, None
        if mark is not None:
            mark.synchronize()


class Ring:
    """At most ``slots`` slots of ``slot_bytes`` bytes each; ``make`` gives the memory of one."""

    def __init__(self, slots: int, slot_bytes: int, make: Callable[[int], torch.Tensor]) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.made = 0
        self._make = make
        self._free: deque[Slot] = deque()
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    def take(self, stopped: Callable[[], bool]) -> Slot | None:
        """Return a slot whose last copy is done, waiting for one; None as soon as ``stopped()`` is true.

        Raises DeviceError when there is no memory for a slot that has to be made.
        """
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
                # The slot at the left came back first; a busy one is taken only when no more may be made.
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
            text = f"no memory for a staging slot of {self.slot_bytes:,} bytes ({reason(err)})"
            hint = "make the ring smaller with configure() before the first load"
            raise DeviceError(f"{text}; {hint}", "LIM_MEMORY", "LIM-06") from err

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


_lock = threading.Lock()
_rings: dict[bool, Ring] = {}
_size = (SLOTS, SLOT_BYTES)


def shared_ring(pinned: bool, make: Callable[[int], torch.Tensor]) -> Ring:
    """Return the ring of this process for pinned or ordinary memory; ``make`` serves for the first call."""
    with _lock:
        if pinned not in _rings:
            _rings[pinned] = Ring(*_size, make)
        return _rings[pinned]


def configure(slots: int = SLOTS, slot_bytes: int = SLOT_BYTES) -> None:
    """Set the size of the staging ring of this process, before the first load.

    Args:
        slots: most slots; two for every thread keep reads and copies overlapped.
        slot_bytes: bytes of one slot, a multiple of 4,096 and at least 16,384; no chunk is larger. torch pins
            powers of two, so others waste memory.

    Raises AccessError for other sizes, and when a ring of another size is there already.
    """
    global _size  # noqa: PLW0603 - one ring per process is the point
    if type(slots) is not int or type(slot_bytes) is not int or max(slots, slot_bytes) > MAX_RING:
        given = f"{shown(slots, 40)} and {shown(slot_bytes, 40)}"
        raise AccessError(f"slots and slot_bytes are whole numbers that memory has room for, not {given}")
    if slots < 1 or slot_bytes < 4 * PAGE or slot_bytes % PAGE:
        text = f"a ring of {slots:,} slots of {slot_bytes:,} bytes: at least one slot is needed, "
        raise AccessError(text + f"and slots have a multiple of {PAGE:,} bytes, {4 * PAGE:,} or more")
    with _lock:
        if any((r.slots, r.slot_bytes) != (slots, slot_bytes) for r in _rings.values()):
            raise AccessError("the staging ring is in use already; configure it before the first load")
        _size = (slots, slot_bytes)


def _reset_after_fork() -> None:
    """Start afresh in a forked child: pinned memory, and the holders of locks, stayed with the parent.

    The parent's slots are never freed here: torch would ask CUDA, which a child must not, and end it.
    """
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for ring in _rings.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(ring))
    _rings.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


class Target(NamedTuple):
    """A file to be read and the buffer it goes to: uint8[plan.size] of the device."""

    reader: Reader
    segments: Sequence[Segment]
    memory: torch.Tensor


class Transfer:
    """One load under way."""

    def __init__(self, targets: Sequence[Target], engine: Engine, ring: Ring, chunk: int) -> None:
        self._targets = targets
        self._engine = engine
        self._ring = ring
        self._jobs = self._all_jobs(chunk)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []

    def _all_jobs(self, chunk: int) -> Iterator[tuple[Target, Chunk]]:
        for target in self._targets:
            for piece in target.reader.chunks(target.segments, chunk):
                yield target, piece

    def run(self, threads: int) -> None:
        """Move everything with ``threads`` workers, or raise the first error.

        Raises UnreadableError, AccessError (O_DIRECT) or DeviceError. After a return, and after an error that
        was not raised in the calling thread, no worker runs any more and all slots are back in the ring.
        """
        try:
            run_threads([self._work] * threads, self._halt, self._errors)
        finally:
            # Jobs that are left and errors that are not raised hold this object, and with it the buffers.
            self._jobs = iter(())
            for err in self._errors[1:]:
                release_frames(err)

    def _halt(self) -> None:
        self._stop.set()
        self._ring.wake()

    def _work(self) -> None:
        lane: Lane | None = None
        try:
            lane = self._open_lane()
            while not self._stop.is_set():
                with self._lock:
                    job = next(self._jobs, None)
                if job is None or not self._move(*job, lane):
                    break
            self._close_lane(lane)
        except BaseException as err:  # raised again in the calling thread
            self._errors.append(err)
            self._halt()
        finally:
            if lane is not None and self._stop.is_set():
                with suppress(Exception):
                    lane.drain()

    def _open_lane(self) -> Lane:
        try:
            return self._engine.lane()
        except Exception as err:
            raise DeviceError(f"{self._engine.device} takes no copies ({reason(err)})") from err

    def _close_lane(self, lane: Lane) -> None:
        try:
            lane.close()
        except Exception as err:
            raise DeviceError(f"copies to {self._engine.device} failed ({reason(err)})") from err

    def _move(self, target: Target, chunk: Chunk, lane: Lane) -> bool:
        into = target.memory[chunk.at : chunk.at + chunk.size]
        try:
            view = lane.host_view(into) if target.reader.in_place else None
            if view is None:
                return self._copy_staged(target.reader, chunk, into, lane)
            target.reader.fill(chunk, view)
        except SafetensorsError:
            raise
        except Exception as err:
            where = f"{target.reader.source.name}: file bytes from {chunk.reads[0].file_at:,} on"
            raise DeviceError(f"{where} did not get to {self._engine.device} ({reason(err)})") from err
        return True

    def _copy_staged(self, reader: Reader, chunk: Chunk, into: torch.Tensor, lane: Lane) -> bool:
        """Read one chunk into a slot and queue its copy; return False when the load was stopped meanwhile."""
        slot = self._ring.take(self._stop.is_set)
        if slot is None:
            return False
        try:
            start = reader.fill(chunk, slot.view)
            slot.mark = lane.copy(into, slot.memory[start : start + chunk.size])
        finally:
            # Without a mark if the copy failed: should it be queued for all that, it carries whatever is
            # in the slot by then, but to a buffer that is never handed out.
            self._ring.give(slot)
        return True


class _Worker:
    """A thread whose end can be waited for more than once.

    ``Thread.join`` is not enough: once interrupted, it takes the thread for finished up to Python 3.12.
    """

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
            # An error that is kept leads back to this frame, which must not keep the memory.
            del self._work
            self._over = True
            self._running.release()

    def start(self) -> None:
        """Start the thread. Raises DeviceError when the system has no more of them."""
        try:
            self._thread.start()
        except RuntimeError as err:
            self._over = True
            del self._work  # thread and worker know one another, and what is to be done knows the memory
            raise DeviceError(f"a thread could not be started ({reason(err)}); use fewer threads") from err

    def wait(self) -> None:
        while not self._over:
            # The lock may have been got by a wait that was interrupted; only the flag is certain.
            if not self._running.acquire(timeout=1) and self._thread.ident is None:
                return  # the interruption came just before the start
        if self._thread.ident is not None:
            self._thread.join()


def run_threads(
    works: Sequence[Callable[[], None]], halt: Callable[[], None], errors: Sequence[BaseException]
) -> None:
    """Run each of ``works`` in a thread of its own and wait for all of them; raise the first of ``errors``.

    When the wait is interrupted, ``halt`` is called, which has the works come to an end, and they are waited
    for. A second interruption ends that wait too.

    Raises DeviceError when a thread cannot be started.
    """
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
