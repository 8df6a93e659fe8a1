"""Workers, which always answer: a crash, hang or noise becomes the outcome of the step in flight."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from safetensors_corpus.judging.answer import Outcome

from ..outcome import Implementation, RetryReason, StepResult
from .confinement import Confinement
from .protocol import MAX_VALUES

START_SECONDS = 120.0
NOISE_LIMIT = 256 << 10
MAX_FAILED_STARTS = 3
More: TypeAlias = Mapping[str, Any] | None
"""Parameters of a step."""
_OUT_OF_MEMORY = re.compile(
    r"memory allocation of \d+ bytes failed|std::bad_alloc|out of memory|OutOfMemory|Cannot allocate memory",
    re.IGNORECASE,
)


class StartError(Exception):
    """The implementation cannot be started. The message gives the reason and the remedy."""


@dataclass(frozen=True)
class Limits:
    """Limits for one step: wall time, memory used after the worker's start, and values in an answer."""

    seconds: float = 10.0
    memory_bytes: int = 2 << 30
    confinement: Confinement = field(default_factory=Confinement)
    values: int = MAX_VALUES

    def capped_by(self, most: Limits) -> Limits | None:
        seconds, memory = min(self.seconds, most.seconds), min(self.memory_bytes, most.memory_bytes)
        changed = (seconds, memory) != (most.seconds, most.memory_bytes)
        return replace(most, seconds=seconds, memory_bytes=memory) if changed else None

    def with_shown(self, *paths: Path) -> Self:
        return replace(self, confinement=self.confinement.with_shown(*paths))


PROBE_LIMITS = Limits(seconds=2.5, memory_bytes=256 << 20)
"""Tighter limits for the first attempt. A hang then takes its full time limit only in the retry."""


class Worker:
    """Runs steps on files, one at a time. A retry sets the two attributes."""

    timeout_factor = 1.0
    force_fresh_process = False  # start processes instead of forks, and watch them after each answer

    def start(self) -> Implementation:
        """Start (or restart) the implementation and return its identity. Raises StartError."""
        raise NotImplementedError

    @property
    def in_flight(self) -> int:
        return 0

    def send_ahead(self, requests: Iterable[Request]) -> None:
        """Send the next requests, in order. Failures are reported when the answers are collected."""

    def ask(
        self, step: str, path: str, more: More = None, *, measure: bool = False, limits: Limits | None = None
    ) -> StepResult:
        """Run ``step`` on a file and never raise. ``limits`` replace those of the worker."""
        raise NotImplementedError

    def renew(self, *, as_before: bool = False) -> None:
        """Use a fresh process for the next answer. ``as_before`` first replays the earlier requests."""

    def close(self) -> None:
        """End all processes."""


REPLAYED_REQUESTS = 64
"""How many requests to replay when checking whether earlier requests cause a failure."""
HANG_RETRY_FACTOR = 3
"""Multiplier for the time limit when a hang is retried."""


class Request(NamedTuple):
    """One step on one file."""

    step: str
    path: str
    more: More = None


def retry_alone(worker: Worker, run: Callable[[], StepResult], first: StepResult) -> StepResult:
    """Repeat a failed step in a fresh process and return the result to report.

    A crash or hang counts against the step if it recurs when the step is run alone. If it recurs only after
    the earlier requests, it is "order-dependent". Earlier files or other programs may be the cause of
    exhausted memory, and an answer that violates the protocol says nothing about the reader. In those two
    cases, the second answer counts.
    """
    # A fork may die or block where a normally started process would not, so confirm crashes and hangs without
    # forking. Answers and memory use do not depend on forking.
    answered = first.exception or first.outcome == "exhausted"
    worker.force_fresh_process = not answered or first.retry is RetryReason.ENDED_WHILE_IDLE
    worker.renew()
    # A slow step that finishes is not a hang, so the retry gets more time.
    worker.timeout_factor = HANG_RETRY_FACTOR if first.outcome == "hang" else 1
    try:
        return _retry_result(worker, run, first)
    finally:
        worker.timeout_factor, worker.force_fresh_process = 1, False


def _retry_result(worker: Worker, run: Callable[[], StepResult], first: StepResult) -> StepResult:
    second = run()
    if second.outcome == first.outcome:
        return second  # its stderr certainly belongs to this step
    if first.retry is RetryReason.ENDED_WHILE_IDLE:
        return second  # the next step caused that death
    hit_probe_limit = first.retry is RetryReason.PROBE_LIMIT
    slow = hit_probe_limit and second.wall_ms >= first.wall_ms  # even when run alone
    if first.outcome in ("crash", "hang") and not slow and first.retry in (None, RetryReason.PROBE_LIMIT):
        worker.renew(as_before=True)
        third = run()
        if third.outcome == first.outcome:
            ended = third if hit_probe_limit else first
            note = f"order-dependent: {second.outcome} when run alone in a fresh process"
            return replace(ended, message=f"{ended.message}; {note}")
    if hit_probe_limit:
        return second
    return replace(second, message=f"{second.message}; asked twice: {first.message}".lstrip("; "))


def random_numbers(bits: int) -> Iterator[int]:
    """Yield unpredictable numbers of ``bits`` bits (at most 32) from the operating system's random source."""
    while True:
        yield from (number >> (32 - bits) for number in array("I", os.urandom(1024)))


def death_outcome(status: int | None, stderr: str) -> Outcome:
    """Distinguish running out of memory (killed by the kernel, or an allocator's message) from a crash."""
    if status == -9 or (status != 0 and _OUT_OF_MEMORY.search(stderr)):
        return "exhausted"
    return "crash"
