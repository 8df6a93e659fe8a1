"""The staging ring: memory that reads go into and copies to the device start from.

Pinning memory costs about as much as copying it several times, so there is one ring per process and kind of
memory, shared by all loads and never larger than configured. A slot is made when it is first needed and kept
from then on.

A worker holds one slot at a time, and never while it waits for another, so loads cannot block one another.
Slots are given to workers in the order in which they asked. A slot comes back as soon as its copy is queued,
with a mark behind that copy; the worker that gets it next waits for the mark.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch

from ..rules.errors import AccessError
from .errors import DeviceError, reason

PAGE = 4096
SLOT_BYTES = 8 << 20
SLOTS = 24
MAX_RING = 1 << 50


class Mark(Protocol):
    """A point in queued work, as ``torch.cuda.Event`` is one."""

    def query(self) -> bool:
        """Return whether everything before the mark is done."""
        ...

    def synchronize(self) -> None:
        """Wait until everything before the mark is done."""
        ...


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
        """Return whether ``wait`` would return at once."""
        try:
            return self.mark is None or self.mark.query()
        except RuntimeError:
            return True  # ``wait`` raises it where it is reported

    def wait(self) -> None:
        """Wait until the last copy from this slot is done."""
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
        """Take a slot back; ``slot.mark`` says when it may be used again."""
        with self._changed:
            self._free.append(slot)
            self._changed.notify_all()

    def wake(self) -> None:
        """Have all who wait for a slot ask again whether to stop."""
        with self._changed:
            self._changed.notify_all()

    @property
    def free(self) -> int:
        """Number of the slots made that are not in use."""
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
        given = f"{repr(slots)[:40]} and {repr(slot_bytes)[:40]}"
        raise AccessError(f"slots and slot_bytes are whole numbers that memory has room for, not {given}")
    if slots < 1 or slot_bytes < 4 * PAGE or slot_bytes % PAGE:
        text = f"a ring of {slots:,} slots of {slot_bytes:,} bytes: at least one slot is needed, "
        raise AccessError(text + f"and slots have a multiple of {PAGE:,} bytes, {4 * PAGE:,} or more")
    with _lock:
        if any((r.slots, r.slot_bytes) != (slots, slot_bytes) for r in _rings.values()):
            raise AccessError("the staging ring is in use already; configure it before the first load")
        _size = (slots, slot_bytes)


def _forget() -> None:
    """Start afresh in a forked child: pinned memory, and the holders of locks, stayed with the parent.

    The parent's slots are never freed here: torch would ask CUDA, which a child must not, and end it.
    """
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for ring in _rings.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(ring))
    _rings.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
