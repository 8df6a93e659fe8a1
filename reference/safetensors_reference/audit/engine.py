"""Runs batches in a loop, in a pool of processes or on dask.

An engine keeps only a few batches per worker in flight, so memory use does not grow with the number of files.
When a worker dies, its batch runs again while no other batch is in flight. If the batch kills a second
worker, each of its files is audited separately. If a file kills two workers, its row says so.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from http.client import HTTPException
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Literal
from urllib.request import urlopen

import click

from ..files.names import FileInput
from ..files.reading import NotReadError
from ..text import shorten, shown_name
from .results import encode_row, unread_row
from .work import AuditOptions, Batch, BatchResult, audit_batch

BATCHES_PER_WORKER = 2
MAX_SLOW_FILES = 10_000
POLL_SECONDS = 2.0
"""Number of seconds to wait for a result before checking that workers are available."""
WORKER_TIMEOUT = 300.0
"""Maximum time in seconds to wait for a cluster that has no workers."""


class EngineError(Exception):
    """Raised if an engine is not available. The message is a single line."""


class Engine:
    """Runs batches in this process, one at a time. Subclasses run them in workers."""

    deaths: tuple[type[BaseException], ...] = ()  # exceptions that indicate that a worker died
    about = "this process"

    @property
    def capacity(self) -> int:
        """Maximum number of batches in flight."""
        return 1

    def submit(self, batch: Batch, options: AuditOptions) -> Any:
        future: Future[BatchResult] = Future()
        future.set_result(audit_batch(batch, options))
        return future

    def check_workers(self) -> None:
        """Raise EngineError if there is no worker."""

    def close(self, *, at_once: bool) -> None:
        """Stop all workers. If ``at_once`` is true, do not wait for running batches."""


def run(batches: Iterable[Batch], options: AuditOptions, engine: Engine) -> Iterator[bytes]:
    return _Scheduler(batches, options, engine).rows()


class _Scheduler:
    def __init__(self, batches: Iterable[Batch], options: AuditOptions, engine: Engine) -> None:
        self.batches = iter(batches)
        self.options, self.engine = options, engine
        # Batches that may have killed a worker, each with the number of workers that it killed while running
        # alone.
        self.suspects: deque[tuple[Batch, int]] = deque()
        # The number is as in ``suspects``, or -1 for a batch that runs at the same time as other batches.
        self.in_flight: dict[Any, tuple[Batch, int]] = {}
        self.left: deque[Batch] = deque()  # not started because slow files were using all concurrent requests
        self.slow: dict[str | None, list[FileInput]] = {}
        self.exhausted = False
        self.done: SimpleQueue[Any] = SimpleQueue()

    def rows(self) -> Iterator[bytes]:
        while True:
            # A suspect must run alone. With other batches in flight, the culprit would be unknown.
            if self.suspects and not self.in_flight:
                self._submit(*self.suspects.popleft())
            isolating = any(kills >= 0 for _, kills in self.in_flight.values())
            while not self.suspects and not isolating and len(self.in_flight) < self.engine.capacity:
                batch = self._next_batch()
                if batch is None:
                    break
                self._submit(batch, -1)
            if self.in_flight:
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

    def _submit(self, batch: Batch, kills: int) -> None:
        try:
            future = self.engine.submit(batch, self.options)
        except self.engine.deaths:  # the pool has just failed
            self.suspects.append((batch, max(kills, 0)))
            return
        self.in_flight[future] = batch, kills
        future.add_done_callback(self.done.put)

    def _finish_one(self) -> Iterator[bytes]:
        while True:
            try:
                future = self.done.get(timeout=POLL_SECONDS)
                break
            except Empty:
                self.engine.check_workers()
        batch, kills = self.in_flight.pop(future)
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
                item = batch.items[0]
                text = "every process that reads this file dies, for example because it runs out of memory"
                kind: Literal["file", "model"] = "model" if item.is_index else "file"
                error = NotReadError("kills-worker", text)
                yield encode_row(unread_row(item.address, error, item.size, item.tag, kind))
        except Exception as err:  # raised by the engine, since ``audit_batch`` never raises
            message = shorten(" ".join(str(err).split()), 300)
            raise EngineError(f"{self.engine.about}: {type(err).__name__}: {message}") from err
        else:
            if result.slow:
                self.slow.setdefault(batch.store, []).extend(result.slow)
            if result.left:
                self.left.append(Batch(batch.store, result.left))
            yield result.rows


class Pool(Engine):
    """A pool of processes on this machine. The pool is restarted when a process dies."""

    deaths = (BrokenExecutor,)

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.about = f"{workers} processes"
        self._pool = self._start_pool()

    @property
    def capacity(self) -> int:
        return BATCHES_PER_WORKER * self._workers

    def _start_pool(self) -> ProcessPoolExecutor:
        # Forking this process would copy the threads of fsspec and the progress bar in an arbitrary state.
        context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
        context.set_forkserver_preload([audit_batch.__module__])
        return ProcessPoolExecutor(self._workers, mp_context=context, initializer=_init_worker)

    def submit(self, batch: Batch, options: AuditOptions) -> Any:
        try:
            return self._pool.submit(audit_batch, batch, options)
        except (BrokenExecutor, OSError):  # a pool that breaks may close the pipes of a worker that it starts
            self._pool.shutdown(wait=False)
            self._pool = self._start_pool()
            return self._pool.submit(audit_batch, batch, options)

    def close(self, *, at_once: bool) -> None:
        self._pool.shutdown(wait=not at_once, cancel_futures=True)
        if at_once:
            for child in multiprocessing.active_children():
                child.kill()


def _init_worker() -> None:
    # The main process handles Ctrl-C: it writes the rows of the workers and then stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:  # otherwise a worker would wait forever if the main process was killed
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class Dask(Engine):
    """Workers of a dask.distributed cluster. This package must be installed on every worker."""

    def __init__(self, address: str, timeout: float = 20) -> None:
        try:
            from distributed import Client
            from distributed.comm.addressing import parse_address
            from distributed.comm.registry import get_backend
            from distributed.scheduler import KilledWorker
        except ImportError as err:
            text = "dask needs the fleet extra: pip install 'safetensors-conformance[fleet]'"
            raise EngineError(text) from err
        try:
            get_backend(parse_address(address)[0])
        except ValueError as err:  # checked here because the client takes a long time to fail
            text = f"this is not the address of a dask scheduler: {err}"
            raise EngineError(f"{shown_name(address)}: {text}") from err
        self.deaths = (KilledWorker,)
        # Their messages would interfere with the progress bar.
        for name in ("distributed", *logging.root.manager.loggerDict):
            if name.partition(".")[0] == "distributed":  # some loggers set their own level
                logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            client: Any = Client  # untyped
            self._client = client(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as err:
            text = f"no dask scheduler responds: {err or type(err).__name__}"
            raise EngineError(f"{shown_name(address)}: {text}") from err
        self.about = f"dask at {shown_name(address)}"
        self._counted_at, self._threads, self._idle_since = -10.0, 1, 0.0

    def dashboard(self) -> str:
        link = str(self._client.dashboard_link)
        try:
            with urlopen(link, timeout=2):  # noqa: S310 - the scheduler's own http link
                return f", dashboard at {shown_name(link)}"
        except (OSError, ValueError, HTTPException):
            return ""

    @property
    def capacity(self) -> int:
        if time.monotonic() - self._counted_at > POLL_SECONDS:  # avoids frequent requests to the scheduler
            # At least one thread is assumed, because workers may join later.
            self._counted_at, self._threads = time.monotonic(), max(1, self._count())
        return BATCHES_PER_WORKER * self._threads

    def _count(self) -> int:
        try:
            threads: dict[str, int] = self._client.nthreads()
        except (OSError, TimeoutError):  # the scheduler has gone away
            return 0
        return sum(threads.values())

    def check_workers(self) -> None:
        """Wait for workers. Raises EngineError if no worker appears within ``WORKER_TIMEOUT`` seconds."""
        now = time.monotonic()
        if self._count():
            self._idle_since = 0.0
        elif not self._idle_since:
            self._idle_since = now
            click.echo(f"{self.about}: waiting for workers", err=True)
        elif now - self._idle_since > WORKER_TIMEOUT:
            raise EngineError(f"{self.about}: no worker was available for {WORKER_TIMEOUT:,.0f} s")

    def submit(self, batch: Batch, options: AuditOptions) -> Any:
        return self._client.submit(audit_batch, batch, options, pure=False)

    def close(self, *, at_once: bool) -> None:  # noqa: ARG002 - closing cancels pending work
        self._client.close()
