"""Workers: one implementation in a process of its own, asked one step at a time.

A worker always answers. Whatever the implementation does (crash, hang, eat memory, print noise, answer
out of order) becomes the outcome of the step in flight; the process is replaced and the next step runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .outcomes import Implementation, Outcome, StepResult

START_SECONDS = 120.0
"""Longest time an implementation may take to start; importing a large framework takes many seconds."""
NOISE_LIMIT = 256 << 10
BREACH = "the adapter breaks the protocol"
"""How the message of a lost conversation begins; what came before in the same process may be to blame."""
BUSY = "nothing is known"
"""How the message begins when the machine was too busy for the implementation to get its time."""
MAX_FAILED_STARTS = 3
_OUT_OF_MEMORY = re.compile(
    r"memory allocation of \d+ bytes failed|std::bad_alloc|out of memory|OutOfMemory|Cannot allocate memory",
    re.IGNORECASE,
)


class StartError(Exception):
    """The implementation cannot be started; the text says why and what to do."""


@dataclass(frozen=True)
class Limits:
    """Limits of one step: wall time in seconds, and memory in bytes above what the worker starts with."""

    seconds: float = 10.0
    memory_bytes: int = 2 << 30


class Worker(Protocol):
    """Something that runs one step on one file.

    ``patience`` is how many times its limit of time an answer may take.
    """

    patience: float

    def start(self) -> Implementation:
        """Start (again) and say who answers. Raises StartError."""
        ...

    def send_ahead(self, requests: Iterable[Request]) -> None:
        """Announce the requests that will be asked for next."""
        ...

    @property
    def in_flight(self) -> int:
        """Requests announced and not asked for yet."""
        ...

    def ask(
        self, step: str, path: str, more: Mapping[str, Any] | None = None, *, measure: bool = False
    ) -> StepResult:
        """Run ``step`` on the file at ``path``; never raises for what the implementation does.

        ``measure`` fills in ``spent_ms``, ``peak_bytes`` and ``read_bytes`` as far as they can be measured.
        """
        ...

    def renew(self) -> None:
        """Make sure that the next request is answered by a fresh process."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


@dataclass(frozen=True)
class Request:
    """One step on one file; ``more`` holds what the step needs besides."""

    step: str
    path: str
    more: Mapping[str, Any] | None = None


def death_outcome(status: int | None, stderr: str) -> Outcome:
    """Tell running out of memory from other deaths: the kernel's kill, or an allocator's last words."""
    if status == -9 or (status != 0 and _OUT_OF_MEMORY.search(stderr)):
        return "exhausted"
    return "crash"
