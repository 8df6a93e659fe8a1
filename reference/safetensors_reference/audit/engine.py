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
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from http.client import HTTPException
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol
from urllib.request import urlopen

import click

from ..rules.faults import shorten, shown_name
from .batches import Batch
from .row import NotReadError, encode_row, unread_row
from .work import audit_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .batches import AuditInput
    from .work import AuditOptions, BatchResult

BATCHES_PER_WORKER = 2
"""Batches under way for each worker: one that it looks at, and one for when that is done."""
MAX_SLOW_FILES = 10_000
"""Slow files that are kept for the end."""
POLL_SECONDS = 2.0
"""Seconds without a row after which an engine says whether it still works."""
WORKER_TIMEOUT = 300.0
"""Longest wait for a worker of a cluster that has none."""


class EngineError(Exception):
    """An engine cannot be had; the text says why in one line."""


class Engine(Protocol):
    """Something that calls ``audit_batch`` somewhere.

    Attributes:
        deaths: exceptions that mean that a worker died.
        about: how it works, in a few words.
    """

    deaths: tuple[type[BaseException], ...]
    about: str

    @property
    def room(self) -> int:
        """How many batches may be under way at the same time."""
        ...

    def submit(self, batch: Batch, options: AuditOptions) -> Any: ...

    def check_workers(self) -> None:
        """Raise EngineError when nothing more will be done; called while nothing is."""
        ...

    def close(self, *, at_once: bool) -> None: ...


def run(batches: Iterable[Batch], options: AuditOptions, engine: Engine | None) -> Iterator[bytes]:
    return _Scheduler(batches, options, engine or Loop()).rows()


class _Scheduler:
    """One run on an engine.

    Attributes:
        suspects: batches whose worker died, each with how often it did so while it was alone.
        under_way: future -> the batch that it stands for, and how often that killed alone.
        left: batches that were not begun, since all requests were about slow files.
        slow: store -> files that others would have had to wait for.
    """

    def __init__(self, batches: Iterable[Batch], options: AuditOptions, engine: Engine) -> None:
        self.batches = iter(batches)
        self.options, self.engine = options, engine
        self.suspects: deque[tuple[Batch, int]] = deque()
        self.under_way: dict[Any, tuple[Batch, int]] = {}
        self.left: deque[Batch] = deque()
        self.slow: dict[str | None, list[AuditInput]] = {}
        self.exhausted = False
        self.done: SimpleQueue[Any] = SimpleQueue()

    def rows(self) -> Iterator[bytes]:
        while True:
            # Who is suspected runs alone: of several that are under way, any may have been the one.
            if self.suspects and not self.under_way:
                self._submit(*self.suspects.popleft())
            while not self.suspects and not self._isolating() and len(self.under_way) < self.engine.room:
                batch = self._next_batch()
                if batch is None:
                    break
                self._submit(batch, -1)
            if self.under_way:
                yield from self._finish_one()
            elif not self.suspects:
                return

    def _next_batch(self) -> Batch | None:
        if self.left:
            return self.left.popleft()
        if not self.exhausted and all(len(items) < MAX_SLOW_FILES for items in self.slow.values()):
            batch = next(self.batches, None)
            if batch is not None:
                return batch
            self.exhausted = True
        if not self.slow:
            return None
        store = max(self.slow, key=lambda store: len(self.slow[store]))
        items = self.slow.pop(store)
        if rest := items[self.options.at_once :]:
            self.slow[store] = rest
        return Batch(store, tuple(items[: self.options.at_once]), patient=True)

    def _isolating(self) -> bool:
        return any(kills >= 0 for _, kills in self.under_way.values())

    def _submit(self, batch: Batch, kills: int) -> None:
        try:
            future = self.engine.submit(batch, self.options)
        except self.engine.deaths:  # the pool broke just now, before it could say so
            self.suspects.append((batch, max(kills, 0)))
            return
        self.under_way[future] = batch, kills
        future.add_done_callback(self.done.put)

    def _finish_one(self) -> Iterator[bytes]:
        while True:
            try:
                future = self.done.get(timeout=POLL_SECONDS)
                break
            except Empty:
                self.engine.check_workers()
        batch, kills = self.under_way.pop(future)
        try:
            result = future.result()
        except self.engine.deaths:
            if kills < 0:
                self.suspects.append((batch, 0))
            elif parts := batch.split():
                self.suspects.extendleft((part, 0) for part in reversed(parts))
            elif kills == 0:
                self.suspects.appendleft((batch, 1))
            else:
                yield _worker_killer_row(batch)
        except Exception as err:  # of the engine: ``audit_batch`` raises none
            message = shorten(" ".join(str(err).split()), 300)
            raise EngineError(f"{self.engine.about}: {type(err).__name__}: {message}") from err
        else:
            if result.slow:
                self.slow.setdefault(batch.store, []).extend(result.slow)
            if result.left:
                self.left.append(Batch(batch.store, result.left))
            yield result.rows


class Loop:
    """Work in this process, a batch at a time."""

    deaths: tuple[type[BaseException], ...] = ()
    about = "this process"
    room = 1

    def submit(self, batch: Batch, options: AuditOptions) -> Any:
        future: Future[BatchResult] = Future()
        future.set_result(audit_batch(batch, options))
        return future

    def check_workers(self) -> None:
        """Do nothing."""

    def close(self, *, at_once: bool) -> None:
        """Do nothing."""


def _worker_killer_row(batch: Batch) -> bytes:
    """Return the row of a file that killed two workers while it was alone."""
    item = batch.items[0]
    error = NotReadError("kills-worker", "every process that reads it dies, such as for want of memory")
    return encode_row(
        unread_row(item.address, error, item.size, item.tag, "model" if item.is_index else "file")
    )


class Pool:
    """A pool of processes on this machine, started anew when one of them dies."""

    deaths: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.about = f"{workers} processes"
        self._pool = self._started()

    @property
    def room(self) -> int:
        return BATCHES_PER_WORKER * self._workers

    def _started(self) -> ProcessPoolExecutor:
        # A fork would copy the threads of fsspec and of a progress bar in the middle of what they do; a
        # server without threads, which has imported everything, is safe to fork.
        context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
        context.set_forkserver_preload([audit_batch.__module__])
        return ProcessPoolExecutor(self._workers, mp_context=context, initializer=_init_worker)

    def submit(self, batch: Batch, options: AuditOptions) -> Any:
        try:
            return self._pool.submit(audit_batch, batch, options)
        except BrokenExecutor:
            self._pool.shutdown(wait=False)
            self._pool = self._started()
            return self._pool.submit(audit_batch, batch, options)

    def check_workers(self) -> None:
        """Do nothing: a process that died has broken the pool."""

    def close(self, *, at_once: bool) -> None:
        self._pool.shutdown(wait=not at_once, cancel_futures=True)
        if at_once:
            for child in multiprocessing.active_children():
                child.kill()


def _init_worker() -> None:
    # Ctrl-C is for the main process, which ends the others when the rows that it has are written.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
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
            from distributed.comm.addressing import parse_address
            from distributed.comm.registry import get_backend
            from distributed.scheduler import KilledWorker
        except ImportError as err:
            raise EngineError("dask needs the extra: pip install 'safetensors-conformance[fleet]'") from err
        try:
            get_backend(parse_address(address)[0])
        except ValueError as err:  # before there is a client, which would end in its own time
            raise EngineError(f"{shown_name(address)}: no address of a dask scheduler: {err}") from err
        self.deaths: tuple[type[BaseException], ...] = (KilledWorker,)
        for name in ("distributed", *logging.root.manager.loggerDict):  # they would write into the bar
            if name.partition(".")[0] == "distributed":  # some of which have a level of their own
                logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._client: Any = _untyped(Client)(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as err:
            text = f"no dask scheduler answers: {err or type(err).__name__}"
            raise EngineError(f"{shown_name(address)}: {text}") from err
        self.about = f"dask at {shown_name(address)}"
        self._asked, self._threads, self._alone_since = -10.0, 1, 0.0

    def dashboard(self) -> str:
        """Say where the dashboard is; nothing where none answers, though dask has an address for it."""
        link = str(self._client.dashboard_link)
        try:
            with urlopen(link, timeout=2):  # noqa: S310 - as the scheduler has it, http by its own words
                return f", dashboard at {shown_name(link)}"
        except (OSError, ValueError, HTTPException):
            return ""

    @property
    def room(self) -> int:
        """How many batches may be under way, for at least one thread, since workers may join later."""
        if time.monotonic() - self._asked > POLL_SECONDS:  # the scheduler has other things to do
            self._asked, self._threads = time.monotonic(), max(1, self._count())
        return BATCHES_PER_WORKER * self._threads

    def _count(self) -> int:
        try:
            threads: dict[str, int] = self._client.nthreads()
        except (OSError, TimeoutError):  # a scheduler that is gone has no workers
            return 0
        return sum(threads.values())

    def check_workers(self) -> None:
        """Wait for workers for some time, and say so. Raises EngineError when none comes."""
        now = time.monotonic()
        if self._count():
            self._alone_since = 0.0
        elif not self._alone_since:
            self._alone_since = now
            click.echo(f"{self.about}: waiting for workers", err=True)
        elif now - self._alone_since > WORKER_TIMEOUT:
            raise EngineError(f"{self.about}: no worker for {WORKER_TIMEOUT:,.0f} s")

    def submit(self, batch: Batch, options: AuditOptions) -> Any:
        return self._client.submit(audit_batch, batch, options, pure=False)

    def close(self, *, at_once: bool) -> None:  # noqa: ARG002 - what nobody waits for is cancelled
        self._client.close()
