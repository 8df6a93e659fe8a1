"""Workers, which always answer: a crash, hang or noise becomes the outcome of the step in flight.

A worker either keeps a process that speaks the worker protocol, or starts one process per file.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from safetensors_corpus.judging.answer import UNSAFE, Outcome
from safetensors_reports.text import visible

from ..implementations.selectors import Target
from ..outcome import Implementation, RetryReason, StepResult
from ..programs.files import small_files
from ..programs.launcher import Confinement, Template
from ..programs.limited_process import (
    LAST_WORDS_SECONDS,
    Child,
    Deadline,
    DiedError,
    EndlessLineError,
    MemoryLimitError,
    StdinClosedError,
    TimeLimitError,
    describe_status,
)
from . import protocol

START_SECONDS = 120.0
NOISE_LIMIT = 256 << 10
MAX_FAILED_STARTS = 3
More: TypeAlias = Mapping[str, Any] | None
_OUT_OF_MEMORY = re.compile(
    r"memory allocation of \d+ bytes failed|std::bad_alloc|out of memory|OutOfMemory|Cannot allocate memory",
    re.IGNORECASE,
)


class StartError(Exception):
    """The implementation cannot be started. The message gives the reason and the remedy."""


@dataclass(frozen=True)
class Limits:
    """Limits for one step: wall time, memory used after the worker's start, and values in an answer.

    ``Child`` enforces time and resident memory. Our hosts also limit their address space.
    """

    seconds: float = 10.0
    memory_bytes: int = 2 << 30
    confinement: Confinement = field(default_factory=Confinement)
    values: int = protocol.MAX_VALUES

    def capped_by(self, most: Limits) -> Limits | None:
        seconds, memory = min(self.seconds, most.seconds), min(self.memory_bytes, most.memory_bytes)
        changed = (seconds, memory) != (most.seconds, most.memory_bytes)
        return replace(most, seconds=seconds, memory_bytes=memory) if changed else None

    def with_shown(self, *paths: Path) -> Self:
        return replace(self, confinement=self.confinement.with_shown(*paths))


PROBE_LIMITS = Limits(seconds=2.5, memory_bytes=256 << 20)
"""Tighter limits for the first attempt. A hang then takes its full time limit only in the retry."""


class Worker:
    """Runs steps on files, one at a time. A retry sets ``timeout_factor`` and ``force_fresh_process``."""

    timeout_factor = 1.0
    force_fresh_process = False  # start processes instead of forks, and watch them after each answer
    pid: int | None = None  # of the process that answers, or None if the harness cannot inspect it
    template: Template | None = None  # started with the first process if forks are reliable

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
        """Run ``step`` on a file without ever raising. ``limits`` replace those of the worker."""
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
    more: More = None  # parameters of the step


def retry_alone(worker: Worker, run: Callable[[], StepResult], first: StepResult) -> StepResult:
    """Repeat a failed step in a fresh process and return the result to report.

    A crash or hang counts against the step if it recurs when the step is run alone, and is "order-dependent"
    if it recurs only after the earlier requests. In two cases, the second answer counts: if memory ran out,
    because other processes may have used it, and if the answer violates the protocol, because such an answer
    says nothing about the reader.
    """
    # A fork may die or block where a normally started process would not, so confirm crashes and hangs without
    # forking. Answers and memory use do not depend on forking.
    answered = first.exception or first.outcome == "exhausted"
    worker.force_fresh_process = not answered or first.retry is RetryReason.ENDED_WHILE_IDLE
    worker.renew()
    # A slow step that finishes is not a hang, so the retry gets more time.
    worker.timeout_factor = HANG_RETRY_FACTOR if first.outcome == "hang" else 1
    try:
        second = run()
        # The standard error of the second answer certainly belongs to this step.
        if second.outcome == first.outcome or first.retry is RetryReason.ENDED_WHILE_IDLE:
            return second
        hit_probe_limit = first.retry is RetryReason.PROBE_LIMIT
        slow = hit_probe_limit and second.wall_ms >= first.wall_ms  # even when run alone
        if first.outcome in ("crash", "hang") and not slow and (first.retry is None or hit_probe_limit):
            worker.renew(as_before=True)
            third = run()
            if third.outcome == first.outcome:
                ended = third if hit_probe_limit else first
                note = f"order-dependent: {second.outcome} when run alone in a fresh process"
                return replace(ended, message=f"{ended.message}; {note}")
        if hit_probe_limit:
            return second
        return replace(second, message=f"{second.message}; asked twice: {first.message}".lstrip("; "))
    finally:
        worker.timeout_factor, worker.force_fresh_process = 1, False


SEQ_BITS = 20
"""Number of random bits between consecutive request numbers, so that no program can guess them."""
DEVICE_LOADS_PER_STEP = 8
"""How many times the device checks load a file. The time limit of a step applies to a single load."""


class PipeWorker(Worker):
    """A persistent process that speaks the worker protocol. Requests may be sent ahead.

    If the process dies with several requests in flight, the last answered request or the next one is the
    cause. The worker then runs the next request alone. If the process survives that, the worker reports the
    death as the result of the last answered request, and the caller repeats that request alone.
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
        self._ahead: deque[tuple[int | StepResult, Request]] = deque()
        self._seq = 0
        self._answered: deque[tuple[Request, float]] = deque(maxlen=REPLAYED_REQUESTS)
        self._replayable: list[tuple[Request, float]] = []
        self._probed: tuple[Request, StepResult] | None = None
        self._renewed = False
        self._failed_starts = 0
        self._verdict_only = False

    @property
    def in_flight(self) -> int:
        return len(self._ahead)

    def start(self) -> Implementation:
        self._end_child()
        child = self._begin()
        try:
            message, _ = self._message(child, Deadline(START_SECONDS))
            reported = protocol.parse_start(message, self._target.selector)
            implementation = _with_descriptor_facts(reported, self._target)
            kept = self._target.reachable(implementation.steps, self._limits.confinement)
            steps = tuple(step for step in kept if step != "device" or self._device is not None)
            implementation = replace(implementation, steps=steps)
            self._verdict_only = implementation.verdict_only
        except (DiedError, TimeLimitError, MemoryLimitError, EndlessLineError, protocol.ProtocolError) as err:
            late = f"no answer to the start request within {START_SECONDS:.0f} s"
            reason = late if isinstance(err, TimeLimitError) else str(err) or type(err).__name__
            raise self._start_error(reason, child.end()) from err
        child.drain_stderr()
        # Limits are relative to the memory that the implementation uses while idle.
        self._resident = child.resident()
        self._child = child
        self.pid = None if self._target.kind == "oci" else child.program_pid  # not that of the engine
        return implementation

    def _begin(self) -> Child:
        confinement = self._limits.confinement
        if confinement.sandbox and self._device not in (None, "cpu"):
            raise self._start_error(
                f"GPUs are not available in the sandbox; leave out --sandbox, or --device {self._device}"
            )
        known = self._target.descriptor
        limited = not self._unlimited_address_space and (known is None or known.limit_address_space)
        argv = self._target.command(self._limits.memory_bytes if limited else 0)
        try:
            if self.template is None and not self.force_fresh_process:
                self.template = self._target.template(argv, confinement)
            template = None if self.force_fresh_process else self.template
            child = self._target.start(argv, self._limits.memory_bytes, confinement, template)
        except OSError as err:
            raise self._start_error(str(err)) from err
        child.send(protocol.start_request(self._profile, self._device))
        return child

    def _start_error(self, reason: str, stderr: str = "") -> StartError:
        last = stderr.strip().splitlines()[-1] if stderr.strip() else ""
        parts = [f"cannot start {visible(self._target.selector, 300)!r}: {visible(reason, 2000)}"]
        if last and last not in reason:
            parts.append(f"it said: {visible(last)}")
        if self._target.hint:
            parts.append(self._target.hint)
        return StartError("; ".join(parts))

    def send_ahead(self, requests: Iterable[Request]) -> None:
        child = self._child
        if child is None:
            return
        lines = bytearray()
        for request in requests:
            if self._probed is not None and request == self._probed[0] and not self._ahead:
                self._ahead.append((self._probed[1], request))
                self._probed = None
                continue
            seq = self._next_seq()
            self._ahead.append((seq, request))
            lines += protocol.run_request(seq, request.step, request.path, request.more)
        child.send(bytes(lines))

    def ask(
        self, step: str, path: str, more: More = None, *, measure: bool = False, limits: Limits | None = None
    ) -> StepResult:
        """Run one step in a process, which is restarted if it has ended."""
        request = Request(step, path, more)
        # Drop what was sent ahead or probed if the caller departed from the announced order.
        if self._probed is not None and request != self._probed[0] and not self._renewed:
            self._probed = None
        while self._ahead and self._ahead[0][1] != request:
            self._take(*self._ahead.popleft())
        if self._ahead:
            return self._take(*self._ahead.popleft(), limits)
        if self._probed is not None and request == self._probed[0]:
            known, self._probed = self._probed[1], None
            return known
        return self._ask_now(request, limits, measure=measure)

    def _take(self, sent: int | StepResult, request: Request, limits: Limits | None = None) -> StepResult:
        """Return the answer to a request that was sent ahead, unless it was already answered."""
        return sent if isinstance(sent, StepResult) else self._answer(sent, request, limits)

    def _ask_now(
        self, request: Request, limits: Limits | None = None, *, measure: bool = False, resent: bool = False
    ) -> StepResult:
        if self._child is None or not self._child.alive or self._child.stdin_closed:
            if self._failed_starts == MAX_FAILED_STARTS:
                text = f"not run: the worker failed to start {MAX_FAILED_STARTS} times"
                return StepResult("harness-error", text)
            try:
                self.start()
            except StartError as err:
                self._failed_starts += 1
                return StepResult("harness-error", str(err))
            self._failed_starts = 0
        assert self._child is not None
        if measure:
            return self._measured(self._child, request, limits)
        return self._answer(self._next_seq(), request, limits, send=True, resent=resent)

    def _next_seq(self) -> int:
        self._seq += 1 + secrets.randbits(SEQ_BITS)
        return self._seq

    def _measured(self, child: Child, request: Request, limits: Limits | None) -> StepResult:
        memory, read, busy = child.reset_peak(), child.bytes_read(), child.processor_seconds()
        seq, began = self._next_seq(), time.perf_counter()
        result = self._answer(seq, request, limits, send=True)
        took = time.perf_counter() - began
        if self._child is not child:
            return result
        more_busy, more_read, peak = child.processor_seconds(), child.bytes_read(), child.peak()
        # The count includes the request that was read from the pipe, so subtract its size.
        asked = len(protocol.run_request(seq, request.step, request.path, request.more))
        spent = None if busy is None or more_busy is None else min(max(more_busy - busy, 0.0), took)
        return replace(
            result,
            peak_bytes=None if peak is None or memory is None else max(peak - memory, 0),
            read_bytes=None if read is None or more_read is None else max(more_read - read - asked, 0),
            spent_ms=None if spent is None else round(spent * 1000, 3),
        )

    def renew(self, *, as_before: bool = False) -> None:
        if as_before:
            self._replay()
        else:
            self._end_child()
        self._renewed = not as_before

    def _replay(self) -> bool:
        before = self._replayable
        self._end_child()
        left = HANG_RETRY_FACTOR * self._limits.seconds * 1000
        for at, (_, took) in enumerate(reversed(before)):
            left -= took
            if left < 0:  # replay only as many requests as fit into the time limit of one slow request
                before = before[len(before) - at :]
                break
        for request, _ in before:
            self._ask_now(request)
        if self._child is not None and not self._child.ends(LAST_WORDS_SECONDS):
            return False
        self._end_child()
        return bool(before)

    def _answer(
        self,
        seq: int,
        request: Request,
        limits: Limits | None = None,
        *,
        send: bool = False,
        resent: bool = False,
    ) -> StepResult:
        """Return the answer to a request. ``send`` sends it first; ``resent`` means it was sent before."""
        child = self._child
        if child is None:
            return StepResult("harness-error", "the worker had ended before it read this request")
        limits = limits or self._limits
        child.allow(self._resident + limits.memory_bytes)
        loads = DEVICE_LOADS_PER_STEP if request.step == "device" else 1
        deadline = Deadline(limits.seconds * self.timeout_factor * loads)
        noise = b""
        try:
            if send:
                child.send(protocol.run_request(seq, request.step, request.path, request.more))
            message, noise = self._message(child, deadline, request_delivered=resent)
            silent = self._verdict_only or request.step in protocol.SILENT_STEPS
            summary = bool(request.more and request.more.get("summary"))
            result = self._doubt_memory(protocol.parse_run(message, seq, silent=silent, summary=summary))
        except (EndlessLineError, protocol.ProtocolError) as err:
            result = self._discard_child(
                child,
                "harness-error",
                f"the adapter breaks the protocol: {err}; stc check-protocol shows where",
                RetryReason.PROTOCOL_BROKEN,
            )
        except StdinClosedError:
            self._discard_child(child, "harness-error", "")
            return self._ask_now(request, limits, resent=True)
        except (TimeLimitError, MemoryLimitError) as err:
            result = self._past_limit(child, err, limits, deadline)
        except DiedError as err:
            result = self._crash_result(child, err)
        # The result of a dead process already contains its last output. Checking for more output takes time,
        # so do it only if no other request is in flight.
        listening = self._child is child and (child.stderr or (not self._ahead and child.said_something))
        stderr = result.stderr or (child.drain_stderr() if listening else "")
        if not 0 < result.wall_ms <= (deadline.at - deadline.began) * 1000:
            result = replace(result, wall_ms=round((time.monotonic() - deadline.began) * 1000, 3))
        if stderr or noise:
            result = replace(result, stderr=stderr, noise=noise[:2000].decode("utf-8", "replace"))
        if self._child is child:
            self._answered.append((request, result.wall_ms))
            result = self._check_alive(child, result)
        return result

    def _check_alive(self, child: Child, result: StepResult) -> StepResult:
        """Return the answer, or a crash if the process died right after it and checking costs no time."""
        renewed, self._renewed = self._renewed, False
        if not (self._ahead or (renewed and self.force_fresh_process)) or not child.ends(LAST_WORDS_SECONDS):
            return result
        coming = self._ahead[0][1] if self._ahead else None
        died = self._crash_result(child, DiedError(child.reap()))
        if coming is not None and not self._died_between(coming):
            return result
        message = f"after its answer it {died.message}"
        return replace(died, message=message, wall_ms=result.wall_ms, retry=RetryReason.ENDED_WHILE_IDLE)

    def _died_between(self, coming: Request) -> bool:
        """Return whether the answered request caused the death. The answer to the next request is kept."""
        before = self._replayable
        alone = self._ask_now(coming)
        self._probed = (coming, alone)
        if alone.outcome in (*UNSAFE, "harness-error"):
            return False
        self._replayable = before
        if self._replay():
            return True
        resent = self._ask_now(coming)
        if resent.outcome in UNSAFE:  # only the two requests together cause it
            self._probed = (coming, resent)
        return False

    def _message(
        self, child: Child, deadline: Deadline, *, request_delivered: bool = True
    ) -> tuple[dict[str, Any], bytes]:
        noise = bytearray()
        while True:
            line = child.read_line(deadline, request_delivered=request_delivered)
            protocol.check_values(line, self._limits.values)
            message = protocol.parse_line(line)
            if message is not None:
                return message, bytes(noise)
            noise += line + b"\n"
            if len(noise) > NOISE_LIMIT:
                raise protocol.ProtocolError(
                    "it never stops writing to standard output; send diagnostics to standard error"
                )

    def _discard_child(
        self, child: Child, outcome: Outcome, message: str, retry: RetryReason | None = None
    ) -> StepResult:
        stderr = child.end()
        self._forget_child()
        return StepResult(outcome, message, stderr=stderr, retry=retry)

    def _past_limit(
        self, child: Child, err: TimeLimitError | MemoryLimitError, limits: Limits, deadline: Deadline
    ) -> StepResult:
        if isinstance(err, MemoryLimitError):
            early = limits.memory_bytes < self._limits.memory_bytes
            limit = f"used more than {limits.memory_bytes >> 20:,} MiB of memory{err.note}"
            result = self._discard_child(child, "exhausted", f"{err.instead or limit}; killed")
        else:
            early = limits.seconds < self._limits.seconds
            text = f"no answer within {deadline.seconds:g} s; killed{err.after}"
            result = self._discard_child(child, "hang", text)
            if err.starved:
                text, retry = f"nothing is known: no answer{err.after}", RetryReason.MACHINE_BUSY
                result = replace(result, outcome="harness-error", message=text, retry=retry)
        if not early:
            return result
        return replace(result, message=f"ended early: {result.message}", retry=RetryReason.PROBE_LIMIT)

    def _crash_result(self, child: Child, err: DiedError) -> StepResult:
        result = self._discard_child(child, "crash", str(err))
        return self._doubt_memory(replace(result, outcome=death_outcome(err.status, result.stderr)))

    def _doubt_memory(self, result: StepResult) -> StepResult:
        if result.outcome != "exhausted" or self._unlimited_address_space:
            return result
        return replace(result, retry=RetryReason.ADDRESS_SPACE)

    def close(self) -> None:
        self._end_child()
        if self.template is not None:
            self.template.close()
            self.template = None

    def _end_child(self) -> None:
        if self._child is None:
            return
        self._child.send(protocol.STOP_REQUEST)
        # Requests that were sent ahead come before the stop request, and their unread answers fill the pipe.
        self._child.wait_closed(0 if self._ahead else 2)
        self._forget_child()

    def _forget_child(self) -> None:
        self._child = self.pid = None
        self._ahead.clear()
        self._replayable = list(self._answered)
        self._answered.clear()


class ExitWorker(Worker):
    """A program that runs once per file. It accepts with exit status 0 and rejects with 1.

    Any other exit status is a crash. If the command line contains ``{folder}``, the program exports the file
    to a folder.
    """

    def __init__(self, target: Target, limits: Limits) -> None:
        self._target = target
        self._limits = limits
        self._start_cost_ms: float | None = None

    def start(self) -> Implementation:
        name = Path(self._target.argv[0]).name
        step = "export" if self._target.exports else "read"
        reported = Implementation(name, "unknown", "unknown", (step,), selector=self._target.selector)
        return _with_descriptor_facts(reported, self._target)

    def ask(
        self, step: str, path: str, more: More = None, *, measure: bool = False, limits: Limits | None = None
    ) -> StepResult:
        """Run the program on one file. The measured time excludes the time that a tiny file takes."""
        del step, limits  # there is only one step, and a start costs more than a probe saves
        result = self._run(path, (more or {}).get("folder", ""))
        if not measure or result.spent_ms is None:
            return replace(result, spent_ms=None)
        if self._start_cost_ms is None:
            with small_files() as (valid, _):
                self._start_cost_ms = self._run(valid).spent_ms or 0.0
        return replace(result, spent_ms=round(max(result.spent_ms - self._start_cost_ms, 0.0), 3))

    def _run(self, path: str, folder: str = "") -> StepResult:
        argv = [part.replace("{folder}", folder).replace("{path}", path) for part in self._target.argv]
        began = time.perf_counter()
        try:
            child = self._target.start(argv, self._limits.memory_bytes, self._limits.confinement)
        except OSError as err:
            return StepResult("harness-error", f"cannot run {argv[0]}: {err}")
        deadline = Deadline(self._limits.seconds * self.timeout_factor)
        result: StepResult | None = None
        try:
            status = child.read_to_end(deadline)
        except TimeLimitError as err:
            result = StepResult("hang", f"did not exit within {deadline.seconds:g} s; killed{err.after}")
            if err.starved:
                text, retry = f"nothing is known: {result.message}", RetryReason.MACHINE_BUSY
                result = StepResult("harness-error", text, retry=retry)
        except MemoryLimitError as err:
            result = StepResult("exhausted", f"{err}{err.note}; killed")
        stderr = child.end()
        if result is None:
            if status == 1 and self._limits.confinement.sandbox and stderr.startswith("bwrap: "):
                status = 127  # bubblewrap exits with 1 if it cannot run the program
            result = _result_of_status(status, stderr)
        wall = round((time.perf_counter() - began) * 1000, 3)
        spent = None if child.spent is None else min(child.spent * 1000, wall)
        return replace(result, wall_ms=wall, spent_ms=spent, stderr=stderr)


def _result_of_status(status: int | None, stderr: str) -> StepResult:
    last = stderr.strip().splitlines()[-1][:300] if stderr.strip() else ""
    if status == 0:
        return StepResult("accept")
    if status == 1:
        return StepResult("reject", last)
    if status in (126, 127):
        return StepResult("harness-error", f"the program cannot be run (exit status {status}): {last}")
    return StepResult(death_outcome(status, stderr), f"{describe_status(status)}: {last}".rstrip(": "))


def death_outcome(status: int | None, stderr: str) -> Outcome:
    """Distinguish running out of memory (killed by the kernel, or an allocator's message) from a crash."""
    exhausted = status == -9 or (status != 0 and _OUT_OF_MEMORY.search(stderr))
    return "exhausted" if exhausted else "crash"


def _with_descriptor_facts(reported: Implementation, target: Target) -> Implementation:
    if reported.version == "unknown" and target.revision:
        reported = replace(reported, version=target.revision)
    if target.descriptor is None or target.entry is None:
        return reported
    reported = replace(reported, areas=frozenset(target.entry.areas))
    if target.kind in ("host", "node") and not target.user_provided and not target.descriptor.outside:
        return reported  # our adapters report these facts themselves
    return replace(reported, name=target.descriptor.name, language=target.descriptor.language)


def make_worker(
    target: Target,
    limits: Limits,
    profile: str | None = None,
    *,
    device: str | None = None,
    unlimited_address_space: bool = False,
) -> Worker:
    """Return the worker for a target. ``unlimited_address_space`` allows mapping a file of 1 TiB."""
    if target.kind == "exit":
        return ExitWorker(target, limits)
    return PipeWorker(target, limits, profile, device=device, unlimited_address_space=unlimited_address_space)
