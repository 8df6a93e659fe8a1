"""Workers: one implementation in a process of its own, asked one step at a time.

A worker always answers. Whatever the implementation does (crash, hang, eat memory, print noise, answer
out of order) becomes the outcome of the step in flight; the process is replaced and the next step runs.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from .confinement import Confinement
from .outcome import Implementation, Outcome, StepResult
from .protocol import MAX_VALUES

if TYPE_CHECKING:
    pass

START_SECONDS = 120.0
"""Longest time an implementation may take to start; importing a large framework takes many seconds."""
NOISE_LIMIT = 256 << 10
BREACH = "the adapter breaks the protocol"
"""Beginning of the message of a lost conversation; what came before in the same process may be to blame."""
BUSY = "nothing is known"
"""Beginning of the message when the machine was too busy for the implementation to get its time."""
BETWEEN = "after its answer it"
"""Beginning of the message when the process ended of itself without being at work on anything."""
DOUBTED = "ended early:"
"""Beginning of the message when an answer reached limits below its own."""
UNSURE = (BREACH, BUSY, BETWEEN, DOUBTED)
"""Beginnings of the messages that hold for a step only when they come again in a fresh process."""
MAX_FAILED_STARTS = 3
_OUT_OF_MEMORY = re.compile(
    r"memory allocation of \d+ bytes failed|std::bad_alloc|out of memory|OutOfMemory|Cannot allocate memory",
    re.IGNORECASE,
)


class StartError(Exception):
    """The implementation cannot be started; the text says why and what to do."""


MOST_MEMORY = 1 << 24
"""Largest limit of memory in MiB, 16 TiB: systems take no more than 2^63 bytes."""


@dataclass(frozen=True)
class Limits:
    """Limits of one step: wall time in seconds, and memory in bytes above what the worker starts with.

    ``confinement`` is what the worker gets of the machine. ``values`` are those of an answer that the harness
    takes, which become many times their size in its own memory.
    """

    seconds: float = 10.0
    memory_bytes: int = 2 << 30
    confinement: Confinement = field(default_factory=Confinement)
    values: int = MAX_VALUES

    def below(self, most: Limits) -> Limits | None:
        seconds, memory = min(self.seconds, most.seconds), min(self.memory_bytes, most.memory_bytes)
        changed = (seconds, memory) != (most.seconds, most.memory_bytes)
        return replace(most, seconds=seconds, memory_bytes=memory) if changed else None

    def showing(self, *paths: Path) -> Self:
        """Return the same with files and folders that programs are asked about."""
        return replace(self, confinement=self.confinement.showing(*paths))


EARLY = Limits(seconds=2.5, memory_bytes=256 << 20)
"""Limits of an answer that is asked for again alone before anyone is blamed: then memory is filled, and a
hang waited for, once only. Small files take hundredths of both."""


class Worker(Protocol):
    """Something that runs one step on one file.

    Attributes:
        patience: how many times its limit of time an answer may take.
        anew: True when an end is asked again: the next processes are to be started programs, not forks of one
            that was loaded, and are looked at for a while behind their answers.
        early: limits of answers in place of the worker's own, None for those. What they have ended says so by
            DOUBTED at the beginning of its message, and is to be asked again.
    """

    patience: float
    anew: bool
    early: Limits | None

    def start(self) -> Implementation:
        """Start (again) and say who answers. Raises StartError."""
        ...

    def send_ahead(self, requests: Iterable[Request]) -> None: ...

    @property
    def in_flight(self) -> int: ...

    def ask(
        self, step: str, path: str, more: Mapping[str, Any] | None = None, *, measure: bool = False
    ) -> StepResult:
        """Run ``step`` on the file at ``path``; never raises for what the implementation does.

        ``measure`` fills in ``spent_ms``, ``peak_bytes`` and ``read_bytes`` as far as they can be measured.
        """
        ...

    def renew(self, *, as_before: bool = False) -> None:
        """Make sure that the next request is answered by a fresh process.

        With ``as_before`` it is one that was asked already what the last process that was lost had answered.
        """
        ...

    def close(self) -> None: ...


HISTORY = 64
"""Requests that are asked again to see whether an end comes of what was asked before."""
PATIENCE_FACTOR = 3
"""Times its limit that an answer may take when a hang is asked again."""


class Request(NamedTuple):
    """One step on one file; ``more`` holds what the step needs besides."""

    step: str
    path: str
    more: Mapping[str, Any] | None = None


def asked_again(worker: Worker, run: Callable[[], StepResult], first: StepResult) -> StepResult:
    """Run a step that ended badly again in a fresh process and return what may be said of it.

    A crash or a hang is the step's when it comes again alone, or again after what was asked before it: then
    it is "order-dependent". Memory may have gone to earlier files or to other programs, and nothing is known
    of the reader from a conversation that was lost: there the second answer counts.
    """
    # A fork may die or wait where a program would not: such an end is seen in one that was started. What it
    # has answered, and the memory that it took, are its own.
    answered = first.exception or first.outcome == "exhausted"
    worker.anew = not answered or first.message.startswith(BETWEEN)
    worker.renew()
    # What is slow and comes to an end is no hang: alone it gets more time.
    worker.patience = PATIENCE_FACTOR if first.outcome == "hang" else 1
    try:
        return _again(worker, run, first)
    finally:
        worker.patience, worker.anew = 1, False


def _again(worker: Worker, run: Callable[[], StepResult], first: StepResult) -> StepResult:
    second = run()
    if second.outcome == first.outcome:
        return second  # with last words that are surely its own
    if first.message.startswith(BETWEEN):
        return second  # it was the next one's death
    doubted = first.message.startswith(DOUBTED)
    slow = doubted and second.wall_ms >= first.wall_ms  # alone, too
    if first.outcome in ("crash", "hang") and not slow and (doubted or not first.message.startswith(UNSURE)):
        worker.renew(as_before=True)
        third = run()
        if third.outcome == first.outcome:
            ended = third if doubted else first
            note = f"order-dependent: {second.outcome} when run alone in a fresh process"
            return replace(ended, message=f"{ended.message}; {note}")
    if doubted:
        return second
    return replace(second, message=f"{second.message}; asked twice: {first.message}".lstrip("; "))


def drawn(bits: int) -> Iterator[int]:
    """Yield numbers of at most 32 bits that nobody can guess, from the system's source, in bundles."""
    while True:
        yield from (number >> (32 - bits) for number in array("I", os.urandom(1024)))


def death_outcome(status: int | None, stderr: str) -> Outcome:
    """Tell running out of memory from other deaths: the kernel's kill, or an allocator's last words."""
    if status == -9 or (status != 0 and _OUT_OF_MEMORY.search(stderr)):
        return "exhausted"
    return "crash"
