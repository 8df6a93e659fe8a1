"""Moving chunks from files to a device with several threads, all or nothing.

The calling thread only waits, so that Ctrl-C finds it there and nowhere else. The first error stops all
workers; each of them waits for its own queued copies before it lets go of the buffer, also when its own end
is no longer waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch

from ..rules.errors import SafetensorsError
from .engine import Engine, Lane
from .errors import DeviceError, reason, release_frames
from .plan import Chunk, Segment
from .readers import Reader
from .ring import Ring


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
        """Read one chunk and queue its copy; return False when the load was stopped meanwhile."""
        try:
            slot = self._ring.take(self._stop.is_set)
            if slot is None:
                return False
            try:
                start = target.reader.fill(chunk, slot.view)
                into = target.memory[chunk.at : chunk.at + chunk.size]
                slot.mark = lane.copy(into, slot.memory[start : start + chunk.size])
            finally:
                # Without a mark if the copy failed: should it be queued for all that, it carries whatever is
                # in the slot by then, but to a buffer that is never handed out.
                self._ring.give(slot)
        except SafetensorsError:
            raise
        except Exception as err:
            where = f"{target.reader.source.name}: file bytes from {chunk.reads[0].file_at:,} on"
            raise DeviceError(f"{where} did not get to {self._engine.device} ({reason(err)})") from err
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
        """Wait for the end of the thread, if it was started at all."""
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
