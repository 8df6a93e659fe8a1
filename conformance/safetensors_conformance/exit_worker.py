"""A program that is run once per file and answers with its exit status alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from .outcomes import Implementation, Outcome, StepResult
from .process import Child, DiedError, FloodError, HungryError, LateError, describe_status
from .selectors import Target
from .worker import Limits, Request, death_outcome


class ExitWorker:
    """A program run once per file that answers with its exit status: 0 accepts, 1 refuses, others crash."""

    def __init__(self, target: Target, limits: Limits) -> None:
        self._target = target
        self._limits = limits

    def start(self) -> Implementation:
        """Nothing runs between files; say what can be known."""
        name = self._target.argv[0].rsplit("/", 1)[-1]
        return Implementation(name, "unknown", "unknown", ("read",), selector=self._target.selector)

    in_flight = 0

    def send_ahead(self, requests: Iterable[Request]) -> None:
        """Nothing is running that could be told ahead."""

    def ask(
        self,
        step: str,  # noqa: ARG002 - it knows one step only
        path: str,
        more: Mapping[str, Any] | None = None,  # noqa: ARG002
        *,
        measure: bool = False,  # noqa: ARG002
    ) -> StepResult:
        """Run the program on one file."""
        argv = [part.replace("{path}", path) for part in self._target.argv]
        began = time.perf_counter()
        try:
            child = Child(argv, self._limits.memory_bytes)
        except OSError as err:
            return StepResult("harness-error", f"cannot run {argv[0]}: {err}")
        deadline = time.monotonic() + self._limits.seconds
        outcome: Outcome
        status: int | None = 0
        try:
            while True:
                child.read_line(deadline)
        except DiedError as err:
            status, message = err.status, str(err)
            outcome = "reject"
        except LateError:
            outcome, message = "hang", f"did not end within {self._limits.seconds:g} s; killed"
        except (HungryError, FloodError):
            outcome, message = "exhausted", "used more memory than allowed; killed"
        stderr = child.drain_stderr()
        child.wait_closed(0)
        if outcome == "reject":
            outcome, message = self._by_status(status, stderr)
        wall = round((time.perf_counter() - began) * 1000, 3)
        return StepResult(outcome, message, wall_ms=wall, stderr=stderr)

    @staticmethod
    def _by_status(status: int | None, stderr: str) -> tuple[Outcome, str]:
        last = stderr.strip().splitlines()[-1][:300] if stderr.strip() else ""
        if status == 0:
            return "accept", ""
        if status == 1:
            return "reject", last
        if status in (126, 127):
            return "harness-error", f"the program cannot be run (exit status {status}): {last}"
        return death_outcome(status, stderr), f"{describe_status(status)}: {last}".rstrip(": ")

    def close(self) -> None:
        """Nothing is left running between files."""
