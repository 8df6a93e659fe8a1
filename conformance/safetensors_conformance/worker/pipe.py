"""Workers behind pipes: a process that speaks the worker protocol, or one per file and its exit status."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from safetensors_reports.text import visible

from ..implementations.selectors import Target
from . import protocol
from .copies import small_files
from .outcome import UNSAFE, Implementation, Outcome, StepResult
from .process import (
    LAST_WORDS_SECONDS,
    Child,
    Deadline,
    DeafError,
    DiedError,
    FloodError,
    HungryError,
    LateError,
    describe_status,
)
from .supervision import Template
from .worker import (
    BETWEEN,
    BREACH,
    BUSY,
    DOUBTED,
    HISTORY,
    MAX_FAILED_STARTS,
    NOISE_LIMIT,
    PATIENCE_FACTOR,
    START_SECONDS,
    Limits,
    Request,
    StartError,
    Worker,
    death_outcome,
    drawn,
)

SEQ_BITS = 20
"""The number of a request is above the last one's by up to 2^20, drawn by chance: a program that answers what
it was not asked yet would have to guess it. With 2^31 requests it stays below 2^53, exact in any language."""
LOADS = 5
"""Times that a file is loaded to look into all promises; the time limit of a step is that of one load."""
ANSWERED = 0
"""The number of a request that was answered already; those that are sent count from 1."""


class PipeWorker:
    """A persistent process that speaks the worker protocol.

    Requests may be sent ahead, so that the process works while its last answer is judged. After the first
    death a spare process is kept warm.

    Whoever dies is asked alone before anyone is blamed. A death while several requests were on their way may
    belong to the one answered last as well as to the next: the next is asked alone at once. If it lives, the
    death is told with the one answered last, for its asker to repeat alone.
    """

    def __init__(
        self,
        target: Target,
        limits: Limits,
        profile: str | None = None,
        *,
        device: str | None = None,
        unlimited_address_space: bool = False,
    ) -> None:
        self._target = target
        self._limits = limits
        self._profile = profile
        self._device = device
        self._unlimited_address_space = unlimited_address_space
        self._child: Child | None = None
        self._resident = 0
        self._spare: Child | None = None
        self._template: Template | None = None
        self._ahead: deque[tuple[int, Request]] = deque()
        self._seq = 0
        self._steps = drawn(SEQ_BITS)
        self._answered: deque[tuple[Request, float]] = deque(maxlen=HISTORY)
        self._before: list[tuple[Request, float]] = []
        self._asked_alone: tuple[Request, StepResult] | None = None
        self._renewed = False
        self._failed_starts = 0
        self._verdict_only = False
        self.patience = 1.0
        self.anew = False
        self.early: Limits | None = None

    @property
    def in_flight(self) -> int:
        """Requests sent whose answers nobody has asked for yet."""
        return len(self._ahead)

    def start(self) -> Implementation:
        self._end_child()
        if self.anew:
            child = self._begin()
        else:
            child, self._spare = self._spare or self._begin(), None
        try:
            message, _ = self._message(child, Deadline(START_SECONDS))
            implementation = _known(protocol.parse_start(message, self._target.selector), self._target)
            kept = self._limits.confinement.reachable(implementation.steps, self._target)
            asked = tuple(step for step in kept if step != "device" or self._device is not None)
            implementation = replace(implementation, steps=asked)
            self._verdict_only = implementation.verdict_only
        except (DiedError, LateError, HungryError, FloodError, protocol.ProtocolError) as err:
            late = f"no answer to the start request within {START_SECONDS:.0f} s"
            reason = late if isinstance(err, LateError) else str(err) or type(err).__name__
            stderr = child.drain_stderr()
            child.wait_closed(0)
            raise self._start_error(reason, stderr) from err
        child.drain_stderr()
        # Limits count from what the implementation needs to be there at all.
        self._resident = child.resident()
        self._child = child
        return implementation

    def _begin(self) -> Child:
        """Start a process and send it the start request. Raises StartError."""
        confinement = self._limits.confinement
        if confinement.sandbox and (self._device or "").startswith("cuda"):
            raise self._start_error(
                f"a sandbox shows no GPU; leave out --sandbox, or --device {self._device}", ""
            )
        known = self._target.descriptor
        limited = not self._unlimited_address_space and (known is None or known.limit_address_space)
        argv = self._target.command(self._limits.memory_bytes if limited else 0)
        try:
            if self._template is None and not self.anew:
                self._template = confinement.template(argv, self._target)
            template = None if self.anew else self._template
            child = confinement.start(argv, self._target, self._limits.memory_bytes, template)
        except OSError as err:
            raise self._start_error(str(err), "") from err
        child.send(protocol.start_request(self._profile, self._device))
        return child

    def _start_error(self, reason: str, stderr: str) -> StartError:
        last = stderr.strip().splitlines()[-1] if stderr.strip() else ""
        parts = [f"cannot start {visible(self._target.selector, 300)!r}: {visible(reason, 2000)}"]
        if last and last not in reason:
            parts.append(f"it said: {visible(last)}")
        if self._target.hint:
            parts.append(self._target.hint)
        return StartError("; ".join(parts))

    def send_ahead(self, requests: Iterable[Request]) -> None:
        """Send requests that will be asked for next, in this order. What fails here shows when they are."""
        child = self._child
        if child is None:
            return
        lines = bytearray()
        for request in requests:
            if self._asked_alone is not None and request == self._asked_alone[0] and not self._ahead:
                self._ahead.append((ANSWERED, request))
                continue
            seq = self._next_seq()
            self._ahead.append((seq, request))
            lines += protocol.run_request(seq, request.step, request.path, request.more)
        child.send(bytes(lines))

    def ask(
        self, step: str, path: str, more: Mapping[str, Any] | None = None, *, measure: bool = False
    ) -> StepResult:
        """Run one step; a worker that is gone is started first.

        ``measure`` resets the high-water mark of memory, counts the bytes read and the processor time, which
        takes longer than a small file does.
        """
        request = Request(step, path, more)
        if self._asked_alone is not None and request != self._asked_alone[0] and not self._renewed:
            self._asked_alone = None  # the order was not the one announced
        while self._ahead and self._ahead[0][1] != request:
            self._take(*self._ahead.popleft())  # the order was not the one announced
        if self._ahead:
            return self._take(*self._ahead.popleft())
        if self._asked_alone is not None and request == self._asked_alone[0]:
            return self._take(ANSWERED, request)
        return self._ask_now(request, measure=measure)

    def _take(self, seq: int, request: Request) -> StepResult:
        if seq != ANSWERED or self._asked_alone is None:
            return self._answer(seq, request)
        known, self._asked_alone = self._asked_alone[1], None
        return known

    def _ask_now(self, request: Request, *, measure: bool = False, again: bool = False) -> StepResult:
        if self._child is None or not self._child.alive or self._child.deaf:
            problem = self._restart()
            if problem is not None:
                return problem
        assert self._child is not None
        seq = self._next_seq()
        if not measure:
            return self._answer(seq, request, send=True, again=again)
        return self._measured(self._child, seq, request)

    def _next_seq(self) -> int:
        self._seq += 1 + next(self._steps)
        return self._seq

    def _measured(self, child: Child, seq: int, request: Request) -> StepResult:
        memory, read, busy = child.reset_peak(), child.bytes_read(), child.processor_seconds()
        began = time.perf_counter()
        result = self._answer(seq, request, send=True)
        took = time.perf_counter() - began
        if self._child is not child:
            return result
        more_busy, more_read, peak = child.processor_seconds(), child.bytes_read(), child.peak()
        # The request went through a pipe, which counts as reading too.
        asked = len(protocol.run_request(seq, request.step, request.path, request.more))
        spent = None if busy is None or more_busy is None else min(max(more_busy - busy, 0.0), took)
        return replace(
            result,
            peak_bytes=None if peak is None or memory is None else max(peak - memory, 0),
            read_bytes=None if read is None or more_read is None else max(more_read - read - asked, 0),
            spent_ms=None if spent is None else round(spent * 1000, 3),
        )

    def renew(self, *, as_before: bool = False) -> None:
        """End the process; the next request starts another."""
        if as_before:
            self._ask_as_before()
        else:
            self._end_child()
        self._renewed = not as_before

    def _ask_as_before(self) -> bool:
        before = self._before
        self._end_child()
        left = PATIENCE_FACTOR * self._limits.seconds * 1000
        for at, (_, took) in enumerate(reversed(before)):
            left -= took
            if left < 0:  # only as many of the last ones as take no longer than a slow one may
                before = before[len(before) - at :]
                break
        for request, _ in before:
            self._ask_now(request)
        if self._child is not None and not self._child.ends(LAST_WORDS_SECONDS):
            return False
        self._end_child()
        return bool(before)

    def _answer(self, seq: int, request: Request, *, send: bool = False, again: bool = False) -> StepResult:
        """Wait for the answer to a request, and send it before when it was not.

        ``again`` says that nobody heard it the first time.
        """
        child = self._child
        if child is None:
            return StepResult("harness-error", "the worker was gone before this request was read")
        began = time.perf_counter()
        limits = self.early or self._limits
        child.allow(self._resident + limits.memory_bytes)
        seconds = limits.seconds * self.patience * (LOADS if request.step == "device" else 1)
        deadline = Deadline(seconds)
        noise = b""
        try:
            if send:
                child.send(protocol.run_request(seq, request.step, request.path, request.more))
            line = child.read_line(deadline, heard=again)
            protocol.check_values(line, self._limits.values)
            silent = self._verdict_only or request.step in protocol.SILENT_STEPS
            plain = protocol.plain_answer(line, seq, silent=silent)
            if plain is None:
                message, noise = self._message(child, deadline, line, heard=again)
                summary = bool(request.more and request.more.get("summary"))
                plain = protocol.parse_run(message, seq, silent=silent, summary=summary)
            result = plain
        except (FloodError, protocol.ProtocolError) as err:
            result = self._lost(child, "harness-error", f"{BREACH}: {err}; stc check-protocol shows where")
        except DeafError:
            self._lost(child, "harness-error", "")
            return self._ask_now(request, again=True)
        except LateError as err:
            early = f"{DOUBTED} " if limits.seconds < self._limits.seconds else ""
            if err.starved:
                result = self._lost(child, "harness-error", f"{early}{BUSY}: no answer{err.after}")
            else:
                result = self._lost(
                    child, "hang", f"{early}no answer within {seconds:g} s; killed{err.after}"
                )
        except HungryError as err:
            early = f"{DOUBTED} " if limits.memory_bytes < self._limits.memory_bytes else ""
            limit = f"used more than {limits.memory_bytes >> 20:,} MiB of memory{err.note}"
            result = self._lost(child, "exhausted", f"{early}{err.instead or limit}; killed")
        except DiedError as err:
            result = self._died(child, err)
        # What a dead process said last is in its result already.
        # Looking for more takes as long as a small file does; that is done when nothing else is on its way.
        listening = self._child is child and (child.stderr or (not self._ahead and child.said_something))
        stderr = result.stderr or (child.drain_stderr() if listening else "")
        result = _timed(result, began, deadline)
        if stderr or noise:
            result = replace(result, stderr=stderr, noise=noise[:2000].decode("utf-8", "replace"))
        if self._child is child:
            self._answered.append((request, result.wall_ms))
            result = self._unless_dead(child, result)
        return result

    def _unless_dead(self, child: Child, result: StepResult) -> StepResult:
        """Return the answer that has come, or the end of the process that came with it.

        Looked for only where it costs no time: where the next answer is waited for anyway, and where an end
        is asked again alone.
        """
        renewed, self._renewed = self._renewed, False
        if not (self._ahead or (renewed and self.anew)) or not child.ends(LAST_WORDS_SECONDS):
            return result
        coming = self._ahead[0][1] if self._ahead else None
        died = self._died(child, DiedError(child.reap()))
        if coming is not None and not self._died_between(coming):
            return result
        return replace(died, message=f"{BETWEEN} {died.message}", wall_ms=result.wall_ms)

    def _died_between(self, coming: Request) -> bool:
        """Tell whether the process that was lost ends after what it has answered, and not by what was coming.

        The answer to what was coming is kept until it is asked for.
        """
        before = self._before
        alone = self._ask_now(coming)
        self._asked_alone = (coming, alone)
        if alone.outcome in (*UNSAFE, "harness-error"):
            return False
        self._before = before
        if self._ask_as_before():
            return True
        again = self._ask_now(coming)
        if again.outcome in UNSAFE:  # by both together
            self._asked_alone = (coming, again)
        return False

    def _restart(self) -> StepResult | None:
        if self._failed_starts >= MAX_FAILED_STARTS:
            return StepResult(
                "harness-error", f"not run: the worker failed to start {MAX_FAILED_STARTS} times"
            )
        try:
            self.start()
        except StartError as err:
            self._failed_starts += 1
            return StepResult("harness-error", str(err))
        self._failed_starts = 0
        return None

    @staticmethod
    def _message(
        child: Child, deadline: Deadline, line: bytes | None = None, *, heard: bool = True
    ) -> tuple[dict[str, object], bytes]:
        """Return the next protocol message, and what else stood on standard output before it.

        ``line`` is the first line when it was read already.
        """
        noise = bytearray()
        while True:
            if line is None:
                line = child.read_line(deadline, heard=heard)
                protocol.check_values(line)
            message = protocol.parse_line(line)
            if message is not None:
                return message, bytes(noise)
            noise += line + b"\n"
            line = None
            if len(noise) > NOISE_LIMIT:
                child.kill()
                raise protocol.ProtocolError(
                    "it prints without end on standard output; print to standard error"
                )

    def _lost(self, child: Child, outcome: Outcome, message: str) -> StepResult:
        """The process cannot be used any more: end it, keep its last words. What it had not read is lost."""
        stderr = child.drain_stderr()
        child.wait_closed(0)
        self._forget_child()
        if self._spare is None:
            with contextlib.suppress(StartError):
                self._spare = self._begin()
        return StepResult(outcome, message, stderr=stderr)

    def _died(self, child: Child, err: DiedError) -> StepResult:
        result = self._lost(child, "crash", str(err))
        return replace(result, outcome=death_outcome(err.status, result.stderr))

    def close(self) -> None:
        """Ask the process to stop, then make sure that it has; end the spare one too."""
        self._end_child()
        if self._spare is not None:
            self._spare.wait_closed(0)
            self._spare = None
        if self._template is not None:
            self._template.close()
            self._template = None

    def _end_child(self) -> None:
        if self._child is None:
            return
        self._child.send(protocol.STOP_REQUEST)
        # What was sent ahead stands before that, and answers that nobody reads fill the pipe.
        self._child.wait_closed(0 if self._ahead else 2)
        self._forget_child()

    def _forget_child(self) -> None:
        self._child = None
        self._ahead.clear()
        self._before = list(self._answered)
        self._answered.clear()


def _timed(result: StepResult, began: float, deadline: Deadline) -> StepResult:
    if 0 < result.wall_ms <= (deadline.at - deadline.began) * 1000:
        return result
    return replace(result, wall_ms=round((time.perf_counter() - began) * 1000, 3))


class ExitWorker:
    """A program run once per file that answers with its exit status: 0 accepts, 1 refuses, others crash."""

    def __init__(self, target: Target, limits: Limits) -> None:
        self._target = target
        self._limits = limits
        self._start: float | None = None
        self.patience = 1.0
        self.anew = False
        self.early: Limits | None = None

    def start(self) -> Implementation:
        """Return what can be known without running the program."""
        name = self._target.argv[0].rsplit("/", 1)[-1]
        told = Implementation(name, "unknown", "unknown", ("read",), selector=self._target.selector)
        return _known(told, self._target)

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
        ended: tuple[Outcome, str] | None = None
        try:
            status = child.read_to_end(deadline)
        except LateError as err:
            message = f"did not end within {deadline.seconds:g} s; killed{err.after}"
            ended = ("harness-error", f"{BUSY}: {message}") if err.starved else ("hang", message)
        except HungryError as err:
            ended = "exhausted", f"{err}{err.note}; killed"
        stderr = child.drain_stderr()
        child.wait_closed(0)
        if ended is None:
            if status == 1 and self._limits.confinement.sandbox and stderr.startswith("bwrap: "):
                status = 127  # bubblewrap says with 1 that it could not run the program
            ended = self._by_status(status, stderr)
        outcome, message = ended
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


def _known(told: Implementation, target: Target) -> Implementation:
    if told.version == "unknown" and target.revision:
        told = replace(told, version=target.revision)
    if target.descriptor is None or target.entry is None:
        return told
    told = replace(told, areas=frozenset(target.entry.areas))
    ours = target.kind in ("host", "node") and not target.brought and not target.descriptor.outside
    if ours:
        return told  # the adapter says it
    return replace(told, name=target.descriptor.name, language=target.descriptor.language)


def make_worker(
    target: Target,
    limits: Limits,
    profile: str | None = None,
    *,
    device: str | None = None,
    unlimited_address_space: bool = False,
) -> Worker:
    """Return the worker for a target; with a ``device`` the step of that name can be asked of it.

    With ``unlimited_address_space`` it may reserve any amount, as mapping a file of a tebibyte takes; its
    resident memory is watched as that of any other.
    """
    if target.kind == "exit":
        return ExitWorker(target, limits)
    return PipeWorker(target, limits, profile, device=device, unlimited_address_space=unlimited_address_space)
