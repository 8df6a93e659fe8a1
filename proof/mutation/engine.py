"""Run mutants with limits, each in its own process, forked from a parent that has loaded everything.

A mutant may hang, exhaust memory or crash its process. All of this counts as detected and must not affect the
run.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import select
import signal
import struct
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, process_time
from typing import TYPE_CHECKING, Protocol, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType


WALL = 5
"""Largest wall time of a mutant on a busy machine, as a multiple of its processor time."""


class HasId(Protocol):
    """A probe of any kind."""

    @property
    def id(self) -> str: ...


P = TypeVar("P", bound=HasId)


@dataclass(frozen=True)
class Limits:
    """Limits of a mutant. A mutant that exceeds a limit counts as detected.

    The correct reader takes a tenth of a second for the most expensive case. The limits are far above that,
    so that a mutant that is merely slow does not count as hanging on a slower machine.

    Attributes:
        probe: seconds of processor time for one probe; wall time would include other processes.
        whole: seconds of processor time for one mutant.
        memory: bytes of address space in addition to those of the parent.
    """

    probe: float = 5.0
    whole: float = 60.0
    memory: int = 512 << 20


@dataclass(frozen=True)
class Outcome:
    """Result of a mutant.

    ``status`` is killed, survived, or stillborn if it cannot be loaded. ``probe`` is the id of the probe that
    killed it, and ``how`` is one of verdict, content, codes, crash and runaway.
    """

    status: str
    probe: str | None = None
    how: str | None = None


class _TimeoutError(BaseException):
    """The time limit was exceeded. It is not an ``Exception``, so no handler in the reader swallows it."""


@dataclass
class _Child:
    """One running mutant: its name, process, pipe and current probe."""

    name: str
    probes: Sequence[HasId]
    pid: int
    pipe: int
    at: mmap.mmap
    deadline: float
    text: bytearray = field(default_factory=bytearray)

    def outcome(self) -> Outcome:
        """Read the answer of the finished process. If there is none, the process crashed or was stopped."""
        (index,) = struct.unpack("<q", self.at[:])
        self.reap()
        status, at, how = json.loads(self.text) if self.text else ("killed", index, "runaway")
        if at >= 0:
            return Outcome(status, self.probes[at].id, how)
        return Outcome(status if self.text else "stillborn")

    def reap(self) -> None:
        os.waitpid(self.pid, 0)
        os.close(self.pipe)
        self.at.close()


def run_all(
    jobs_to_do: Iterable[tuple[str, Callable[[], Callable[[P], str | None]], Sequence[P]]],
    limits: Limits,
    jobs: int = 2,
) -> Iterator[tuple[str, Outcome]]:
    """Run mutants and yield (name, outcome) in the order in which they finish.

    Each item consists of a name, a function that loads the mutant (called in its process), and the probes in
    order. The loaded mutant takes a probe and returns a string that describes a wrong answer, or None.
    """
    waiting = iter(jobs_to_do)
    running: dict[int, _Child] = {}
    gc.collect()
    gc.freeze()  # otherwise each child would traverse all loaded objects and so copy them
    try:
        while True:
            while len(running) < jobs and (item := next(waiting, None)) is not None:
                child = _start(*item, limits)
                running[child.pipe] = child
            if not running:
                return
            wait = max(0.0, min(child.deadline for child in running.values()) - monotonic())
            for pipe in select.select(list(running), [], [], wait)[0]:
                child = running[pipe]
                if piece := os.read(pipe, 65536):
                    child.text += piece
                    continue
                del running[pipe]
                yield child.name, child.outcome()
            for child in running.values():
                if monotonic() > child.deadline:
                    # The child's own alarm had no effect, so the child hangs in code in which Python does not
                    # check for signals.
                    os.kill(child.pid, signal.SIGKILL)
                    child.deadline = monotonic() + 60
    finally:
        for child in running.values():
            os.kill(child.pid, signal.SIGKILL)
            child.reap()
        gc.unfreeze()


def _start(
    name: str, load: Callable[[], Callable[[P], str | None]], probes: Sequence[P], limits: Limits
) -> _Child:
    at = mmap.mmap(-1, 8)  # shared with the child, so that the parent knows the probe after a crash
    at[:] = struct.pack("<q", -1)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python warns about threads of libraries, but the child uses none of their locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            os.close(reader)
            outcome = _live(load, probes, limits, at)
            os.write(writer, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writer)
    return _Child(name, probes, pid, reader, at, monotonic() + WALL * limits.whole)


def _live(
    load: Callable[[], Callable[[P], str | None]], probes: Sequence[P], limits: Limits, at: mmap.mmap
) -> tuple[str, int, str]:
    _restrict(limits)
    ends = process_time() + limits.whole
    try:
        signal.setitimer(signal.ITIMER_PROF, limits.whole)
        check = load()
    except (Exception, _TimeoutError):
        return "stillborn", -1, ""
    for index, probe in enumerate(probes):
        at[:] = struct.pack("<q", index)
        try:
            left = ends - process_time()
            if left <= 0:
                return "killed", index, "runaway"
            signal.setitimer(signal.ITIMER_PROF, min(limits.probe, left))
            how = check(probe)
            signal.setitimer(signal.ITIMER_PROF, 0)
        except (MemoryError, _TimeoutError):
            # Which of the two limits is reached first depends on the machine.
            return "killed", index, "runaway"
        except Exception:
            return "killed", index, "crash"
        if how is not None:
            return "killed", index, how
    return "survived", -1, ""


def _restrict(limits: Limits) -> None:
    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise _TimeoutError

    signal.signal(signal.SIGPROF, ring)
    with suppress(ImportError, ValueError, OSError):  # not every system can limit memory
        import resource

        most = psutil.Process().memory_info().vms + limits.memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
