"""Engines: one function over an iterator of batches, in a loop, in a pool of processes or on dask.

At most a few batches are under way for each worker, so that memory does not grow with the number of files.
A batch whose worker dies is looked at again, alone; when that kills again, each of its files is alone. The
file that then kills twice is named by a row, and all others have theirs.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

from ..rules.faults import shorten
from .row import OutcomeError, encoded, not_read
from .work import look_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .batches import Batch
    from .work import Plan

AHEAD = 2
"""Batches under way for each worker: one that it looks at, and one for when that is done."""


class EngineError(Exception):
    """An engine cannot be had; the text says why in one line."""


class Engine(Protocol):
    """Something that calls ``look_at`` somewhere.

    Attributes:
        deaths: exceptions that mean that a worker died.
        about: how it works, in a few words.
    """

    deaths: tuple[type[BaseException], ...]
    about: str

    @property
    def workers(self) -> int:
        """How many batches it works on at the same time, as far as it is known."""
        ...

    def submit(self, batch: Batch, plan: Plan) -> Any:
        """Return a future with ``add_done_callback`` and ``result``."""
        ...

    def close(self, *, at_once: bool) -> None:
        """End all workers, ``at_once`` without waiting for what they do."""
        ...


def run(batches: Iterable[Batch], plan: Plan, engine: Engine | None) -> Iterator[bytes]:
    """Yield the rows of all batches, in the order in which they are done; without an engine, in a loop."""
    if engine is None:
        for batch in batches:
            yield look_at(batch, plan)
    else:
        yield from _Run(batches, plan, engine).rows()


class _Run:
    """One run on an engine.

    Attributes:
        suspects: batches whose worker died, each with how often it did so while it was alone.
        under_way: future -> the batch that it stands for, and how often that killed alone.
    """

    def __init__(self, batches: Iterable[Batch], plan: Plan, engine: Engine) -> None:
        self.batches = iter(batches)
        self.plan, self.engine = plan, engine
        self.suspects: deque[tuple[Batch, int]] = deque()
        self.under_way: dict[Any, tuple[Batch, int]] = {}
        self.done: SimpleQueue[Any] = SimpleQueue()

    def rows(self) -> Iterator[bytes]:
        """Yield rows until nothing is left."""
        exhausted = False
        while not exhausted or self.suspects or self.under_way:
            # Who is suspected runs alone: of several that are under way, any may have been the one.
            if self.suspects and not self.under_way:
                self._submit(*self.suspects.popleft())
            while not exhausted and not self.suspects and not self._alone():
                if len(self.under_way) >= AHEAD * self.engine.workers:
                    break
                batch = next(self.batches, None)
                if batch is None:
                    exhausted = True
                else:
                    self._submit(batch, -1)
            if self.under_way:
                yield from self._next()

    def _alone(self) -> bool:
        """Return whether a suspect is under way."""
        return any(kills >= 0 for _, kills in self.under_way.values())

    def _submit(self, batch: Batch, kills: int) -> None:
        try:
            future = self.engine.submit(batch, self.plan)
        except self.engine.deaths:  # the pool broke just now, before it could say so
            self.suspects.append((batch, max(kills, 0)))
            return
        self.under_way[future] = batch, kills
        future.add_done_callback(self.done.put)

    def _next(self) -> Iterator[bytes]:
        future = self.done.get()
        batch, kills = self.under_way.pop(future)
        try:
            rows = future.result()
        except self.engine.deaths:
            if kills < 0:
                self.suspects.append((batch, 0))
            elif parts := batch.singles():
                self.suspects.extendleft((part, 0) for part in reversed(parts))
            elif kills == 0:
                self.suspects.appendleft((batch, 1))
            else:
                yield _killer(batch)
        except Exception as err:  # of the engine: ``look_at`` raises none
            said = shorten(" ".join(str(err).split()), 300)
            raise EngineError(f"{self.engine.about}: {type(err).__name__}: {said}") from err
        else:
            yield rows


def _killer(batch: Batch) -> bytes:
    """Return the row of a file that killed two workers while it was alone."""
    item = batch.items[0]
    error = OutcomeError("kills-worker", "every process that reads it dies, such as for want of memory")
    return encoded(not_read(item.address, error, item.size, item.tag, "model" if item.is_index else "file"))


class Pool:
    """A pool of processes on this machine, started anew when one of them dies."""

    deaths: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.about = f"{workers} processes"
        self._pool = self._started()

    @property
    def workers(self) -> int:
        """The number of processes."""
        return self._workers

    def _started(self) -> ProcessPoolExecutor:
        # A fork would copy the threads of fsspec and of a progress bar in the middle of what they do; a
        # server without threads, which has imported everything, is safe to fork.
        context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
        context.set_forkserver_preload([look_at.__module__])
        return ProcessPoolExecutor(self._workers, mp_context=context, initializer=_worker)

    def submit(self, batch: Batch, plan: Plan) -> Any:
        """Return the future of a batch."""
        try:
            return self._pool.submit(look_at, batch, plan)
        except BrokenExecutor:
            self._pool.shutdown(wait=False)
            self._pool = self._started()
            return self._pool.submit(look_at, batch, plan)

    def close(self, *, at_once: bool) -> None:
        """End all processes."""
        self._pool.shutdown(wait=not at_once, cancel_futures=True)
        if at_once:
            for child in multiprocessing.active_children():
                child.kill()


def _worker() -> None:
    # Ctrl-C is for the main process, which ends the others when the rows that it has are written.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    """End this process when the main process is killed, which would leave it waiting for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _untyped(function: Any) -> Any:
    return function


class Dask:
    """Workers of dask.distributed, wherever they run; this package must be installed there as well."""

    def __init__(self, address: str, timeout: float = 20) -> None:
        try:
            from distributed import Client
            from distributed.scheduler import KilledWorker
        except ImportError as err:
            raise EngineError("dask needs the extra: pip install 'safetensors-conformance[fleet]'") from err
        self.deaths: tuple[type[BaseException], ...] = (KilledWorker,)
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it would write into the bar
        try:
            self._client: Any = _untyped(Client)(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as err:
            raise EngineError(f"{address}: no dask scheduler answers: {err or type(err).__name__}") from err
        self.about = f"dask, dashboard at {self._client.dashboard_link}"
        self._asked, self._threads = -10.0, 1

    @property
    def workers(self) -> int:
        """Threads of all workers; at least one, since workers may join later."""
        if time.monotonic() - self._asked > 2:  # the scheduler has other things to do
            threads: dict[str, int] = self._client.nthreads()
            self._asked, self._threads = time.monotonic(), max(1, sum(threads.values()))
        return self._threads

    def submit(self, batch: Batch, plan: Plan) -> Any:
        """Return the future of a batch."""
        return self._client.submit(look_at, batch, plan, pure=False)

    def close(self, *, at_once: bool) -> None:  # noqa: ARG002 - what nobody waits for is cancelled
        """Leave the cluster, which goes on."""
        self._client.close()
