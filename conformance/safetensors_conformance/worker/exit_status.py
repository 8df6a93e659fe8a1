"""A program that is run once per file and answers with its exit status alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..implementations.selectors import Target
from .copies import small_files
from .outcome import Implementation, Outcome, StepResult
from .process import Deadline, DiedError, FloodError, HungryError, LateError, describe_status
from .worker import BUSY, Limits, Request, death_outcome


class ExitWorker:
    """A program run once per file that answers with its exit status: 0 accepts, 1 refuses, others crash."""

    def __init__(self, target: Target, limits: Limits) -> None:
        self._target = target
        self._limits = limits
        self._start: float | None = None
        self.patience = 1.0

    def start(self) -> Implementation:
        """Return what can be known without running the program."""
        name = self._target.argv[0].rsplit("/", 1)[-1]
        return Implementation(name, "unknown", "unknown", ("read",), selector=self._target.selector)

    in_flight = 0

    def send_ahead(self, requests: Iterable[Request]) -> None:
        """Do nothing: no process is there to send to before its file is asked for."""

    def renew(self, *, as_before: bool = False) -> None:
        """Do nothing: every process is a fresh one."""

    def ask(
        self,
        step: str,  # noqa: ARG002 - it knows one step only
        path: str,
        more: Mapping[str, Any] | None = None,  # noqa: ARG002
        *,
        measure: bool = False,
    ) -> StepResult:
        """Run the program on one file. Only time is measured, beyond what a small file takes."""
        result = self._run(path)
        if not measure or result.spent_ms is None:
            return replace(result, spent_ms=None)
        return replace(result, spent_ms=round(max(result.spent_ms - self._start_ms(), 0.0), 3))

    def _start_ms(self) -> float:
        """Return the processor time in milliseconds that a small file takes, most of it for starting."""
        if self._start is None:
            with small_files() as (valid, _):
                self._start = self._run(valid).spent_ms or 0.0
        return self._start

    def _run(self, path: str) -> StepResult:
        argv = [part.replace("{path}", path) for part in self._target.argv]
        began = time.perf_counter()
        try:
            child = self._limits.confinement.start(argv, self._target, self._limits.memory_bytes)
        except OSError as err:
            return StepResult("harness-error", f"cannot run {argv[0]}: {err}")
        deadline = Deadline(self._limits.seconds * self.patience)
        outcome: Outcome
        status: int | None = 0
        try:
            while True:
                child.read_line(deadline)
        except DiedError as err:
            status, message = err.status, str(err)
            outcome = "reject"
        except LateError as err:
            outcome = "harness-error" if err.starved else "hang"
            message = f"did not end within {deadline.seconds:g} s; killed{err.after}"
            if err.starved:
                message = f"{BUSY}: {message}"
        except HungryError as err:
            outcome, message = "exhausted", f"{err}{err.note}; killed"
        except FloodError:
            outcome, message = "exhausted", "wrote an endless line on standard output; killed"
        stderr = child.drain_stderr()
        child.wait_closed(0)
        if outcome == "reject":
            if status == 1 and self._limits.confinement.sandbox and stderr.startswith("bwrap: "):
                status = 127  # bubblewrap says with 1 that it could not run the program
            outcome, message = self._by_status(status, stderr)
        wall = round((time.perf_counter() - began) * 1000, 3)
        spent = None if child.spent is None else min(child.spent * 1000, wall)
        return StepResult(outcome, message, wall_ms=wall, spent_ms=spent, stderr=stderr)

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
        """Do nothing: no process outlives its file."""
