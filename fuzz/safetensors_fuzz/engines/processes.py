"""A run in several processes: findings and counts come back over a queue, also after Ctrl-C."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from typing import Any

from ..findings.finding import Finding
from ..loop.recorder import Tally


class RunError(Exception):
    """The run cannot be done as asked; the text says why and what to do."""


Work = Callable[[Any, Callable[[Finding], None], Callable[[Tally], None], Tally], None]
"""What a process does with its order: told findings and progress as they come; counts in the tally."""
LAST_WORDS = 15.0
"""Seconds that the processes have to end after Ctrl-C."""


@dataclass
class Processes:
    """The processes of a run; of equal findings the first is kept.

    Attributes:
        work: what each does with its order.
        keep: takes each finding.
        progress: told the sum of the counts now and then.
        tally: that sum.
    """

    work: Work
    keep: Callable[[Finding], None]
    progress: Callable[[Tally], None]
    tally: Tally
    _parts: dict[int, Tally] = field(default_factory=dict)
    _problems: list[str] = field(default_factory=list)

    def do(self, orders: Sequence[Any]) -> list[str]:
        """Do each order in a process of its own. Returns what went wrong."""
        context = multiprocessing.get_context("spawn")
        messages: Any = context.Queue()
        processes = [
            context.Process(target=_job, args=(self.work, order, job, messages))
            for job, order in enumerate(orders)
        ]
        for process in processes:
            process.start()
        try:
            self._listen(processes, messages)
        except KeyboardInterrupt:
            # They were interrupted by the same key and say what they have.
            with contextlib.suppress(KeyboardInterrupt):
                self._listen(processes, messages, time.monotonic() + LAST_WORDS)
            raise
        finally:
            _merge(self._parts, self.tally)
            for process in processes:
                if process.is_alive():
                    process.terminate()
                process.join(5)
        return self._problems

    def _listen(self, processes: Sequence[BaseProcess], messages: Any, deadline: float | None = None) -> None:
        """Take messages until every process has ended; progress is told where there is no deadline."""
        done: set[int] = set()
        while len(done) < len(processes) and (deadline is None or time.monotonic() < deadline):
            try:
                kind, job, content = messages.get(timeout=0.2)
            except queue.Empty:
                dead = {job for job, process in enumerate(processes) if not process.is_alive()} - done
                if dead and messages.empty():
                    self._problems += [
                        f"process {job} died with status {processes[job].exitcode}" for job in dead
                    ]
                    done |= dead
                continue
            if kind == "finding":
                if content.signature not in self.tally.findings:
                    self.tally.findings[content.signature] = content
                    self.keep(content)
            elif kind == "problem":
                self._problems.append(content)
            else:
                self._parts[job] = content
                done |= {job} if kind == "done" else set()
                if deadline is None:
                    self.progress(_merge(self._parts, self.tally))


def _job(work: Work, order: Any, job: int, messages: Any) -> None:
    """Do the part of one process."""
    tally = Tally()
    last = 0.0

    def tell(now: Tally) -> None:
        nonlocal last
        if time.monotonic() - last > 0.25:
            last = time.monotonic()
            messages.put(("progress", job, replace(now, findings={})))

    try:
        with contextlib.suppress(KeyboardInterrupt):
            work(order, lambda f: messages.put(("finding", job, f)), tell, tally)
    except Exception as err:  # told where somebody listens
        text = str(err) if isinstance(err, RunError) else f"{type(err).__name__}: {err}"
        messages.put(("problem", job, text))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the last word must get through
        messages.put(("done", job, replace(tally, findings={})))


def _merge(parts: dict[int, Tally], tally: Tally) -> Tally:
    """Add up what the processes counted; findings are in the tally already."""
    rows = list(parts.values())
    tally.execs = sum(row.execs for row in rows)
    tally.skipped = sum(row.skipped for row in rows)
    tally.kept = sum(row.kept for row in rows)
    tally.tuples = max((row.tuples for row in rows), default=0)
    tally.seconds = max((row.seconds for row in rows), default=0.0)
    for name in ("stages", "rules", "outcomes", "known"):
        total = getattr(tally, name)
        total.clear()
        for row in rows:
            total.update(getattr(row, name))
    for row in rows:
        tally.unstable.update(row.unstable)
    return tally
