"""Run the steps of one implementation on inputs, in order, without judging the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.in_process import run_case
from safetensors_corpus.judging.answer import UNSAFE, Answer
from safetensors_corpus.repeating import Usage, usage_of

from ..implementations.selectors import Target
from ..outcome import Implementation, RetryReason, StepResult
from ..programs.files import Copies, scratch_folder, small_files, without
from ..worker.worker import PROBE_LIMITS, Limits, Request, Worker, make_worker, retry_alone
from .budget import cheaper, excesses

MAX_IN_FLIGHT = 256
"""Maximum number of requests in flight, which nearly fills a pipe."""
BUNDLE_SIZE = 32
"""Number of requests in a bundle. The process works on them while the harness copies the next inputs."""
DEATHS_FOR_A_HANG = 10
"""How many deaths in a row count as one hang, because some readers die on each of up to 92 broken files."""


TOO_LARGE = StepResult("harness-error", "the answer does not fit into the memory of the harness")


class StoppedError(Exception):
    """The run was stopped, so the step in flight has no answer."""


class GivenUpError(Exception):
    """Too many cases in a row hung or died, so the run cannot continue."""


@dataclass(frozen=True)
class GivenFile:
    """A file given by its path. Its ``kind`` is ``index`` or ``read``."""

    id: str
    kind: str
    path: Path
    size = 0
    budget: None = None

    @property
    def steps(self) -> tuple[str, ...]:
        return ("index",) if self.kind == "index" else ("open", "read")


Input: TypeAlias = Case | GivenFile
AnyInput = TypeVar("AnyInput", Case, Input)
Result = TypeVar("Result")


class CaseRunner:
    """Runs one implementation on inputs. Hangs are retried inside the context manager ``waiting``."""

    def __init__(
        self,
        target: Target,
        limits: Limits | None = None,
        profile: str | None = None,
        device: str | None = None,
        *,
        max_hangs: int = 0,
        last_step_only: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        self.target = target
        self.limits = limits or Limits()
        self.profile = profile
        self.device = device
        self.stop = stop or threading.Event()
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        self.implementation: Implementation | None = None
        self._worker = make_worker(target, self.limits, profile, device=device)
        self._unlimited: Worker | None = None
        self._savers: list[Worker] = []
        self._copies = Copies()
        self._plan: list[Input] = []
        self._plan_index: dict[str, int] = {}
        self._steps: dict[str, list[str]] = {}
        self._sent = 0
        self._answered: set[str] = set()
        self._max_hangs = max_hangs
        self._last_step_only = last_step_only
        self._consecutive_failures = 0
        self._last_failed = ""
        self._recheck_inputs = False
        self._probe_limits = PROBE_LIMITS.capped_by(self.limits)

    def start(self) -> Implementation:
        if self.implementation is None:
            self.implementation = self._worker.start()
            self._steps.clear()
        return self.implementation

    def steps(self, item: Input) -> list[str]:
        if self.implementation is None:
            return []
        known = self._steps.get(item.id)
        if known is None:
            if isinstance(item, Case):
                steps = self.implementation.steps_of(item)
            else:
                steps = [step for step in item.steps if step in self.implementation.steps]
            known = self._steps[item.id] = steps[-1:] if self._last_step_only else steps
        return known

    def plan(self, inputs: Iterable[Input]) -> None:
        """Announce the order of the inputs, so that their requests can be sent ahead."""
        self._plan = list(inputs)
        self._plan_index = {item.id: place for place, item in enumerate(self._plan)}

    def run(
        self, inputs: Iterable[AnyInput], result: Callable[[AnyInput], Result]
    ) -> Iterator[tuple[AnyInput, Result]]:
        """Plan the inputs and yield each of them with its ``result(input)``, until the run ends."""
        inputs = list(inputs)
        self.plan(inputs)
        for item in inputs:
            try:
                found = result(item)
            except StoppedError:
                return
            yield item, found
            if self.stop.is_set():
                return

    def answers(self, item: Input) -> dict[str, StepResult]:
        """Run all steps of an input. Raises StartError, GivenUpError and StoppedError."""
        if self.stop.is_set():
            raise StoppedError
        if self._max_hangs and self._consecutive_failures >= self._max_hangs * DEATHS_FOR_A_HANG:
            raise GivenUpError(
                f"stopped: too many cases in a row hung or died (the last one was {self._last_failed}); "
                f"the limit is --max-hangs {self._max_hangs}, or {DEATHS_FOR_A_HANG} times as many "
                "deaths"
            )
        self.start()
        try:
            results = self._answers(item)
        except ManifestError as err:
            results = dict.fromkeys(self.steps(item), StepResult("harness-error", str(err)))
        except MemoryError:
            results = dict.fromkeys(self.steps(item), TOO_LARGE)
        finally:
            if isinstance(item, Case):
                self._copies.release(item)
        self._answered.add(item.id)
        ends = {result.outcome for result in results.values()} & UNSAFE
        self._consecutive_failures = (
            self._consecutive_failures + (DEATHS_FOR_A_HANG if "hang" in ends else 1) if ends else 0
        )
        self._last_failed = item.id
        return results

    def _answers(self, item: Input) -> dict[str, StepResult]:
        steps, results = self.steps(item), {}
        if (
            self._worker.in_flight <= MAX_IN_FLIGHT // 2
            and item.id in self._plan_index
            and is_single_question(item)
        ):
            self._send_ahead(self._plan_index[item.id])
        # An earlier request may have damaged this input, which the check after the steps detects, too. Once
        # that has happened, also check before the steps, because a reader may hang on the file.
        if not self._recheck_inputs or not self._input_change(item):
            for step in steps:
                result = self._run(item, step, probe_limits=self._probe_limits)
                bad = result.outcome in UNSAFE or result.retry is not None
                if bad and not self._input_change(item):
                    result = self._retry(item, step, result)
                results[step] = result if item.budget is None else self._within_budget(item, step, result)
        change = self._input_change(item)
        self._recheck_inputs = self._recheck_inputs or bool(change)
        return {step: self._retry_on_new_copy(item, step, change) for step in steps} if change else results

    def _send_ahead(self, place: int) -> None:
        self._sent = max(self._sent, place) if self._worker.in_flight else place
        requests: list[Request] = []
        while self._sent < len(self._plan) and len(requests) + self._worker.in_flight < MAX_IN_FLIGHT:
            if len(requests) >= BUNDLE_SIZE:
                self._worker.send_ahead(requests)
                requests.clear()
            coming = self._plan[self._sent]
            if coming.id in self._answered or not is_single_question(coming):
                break
            try:
                path = self._path(coming)
            except ManifestError:
                break  # reported when this input is run
            requests += [Request(step, path) for step in self.steps(coming)]
            self._sent += 1
        if requests:
            self._worker.send_ahead(requests)

    def _path(self, item: Input) -> str:
        return self._copies.path(item) if isinstance(item, Case) else str(item.path)

    def _input_change(self, item: Input) -> str:
        return self._copies.change(item) if isinstance(item, Case) else ""

    def _retry_on_new_copy(self, item: Input, step: str, change: str) -> StepResult:
        """Retry a step on a new copy in a fresh process to see whether it changes that copy, too."""
        assert isinstance(item, Case)
        self._copies.discard(item)
        self._path(item)  # before renewing the worker, because this raises if the file cannot be copied
        self._worker_for(item).renew()
        result = self._within_budget(item, step, self._run(item, step))
        own = self._input_change(item)
        if own:
            return replace(result, changed=own)
        note = f"{change} while the program worked on other files; repeated with a new copy"
        return replace(result, message=f"{result.message}; {note}".lstrip("; "))

    def _run(
        self, item: Input, step: str, *, unlimited: bool = False, probe_limits: Limits | None = None
    ) -> StepResult:
        if self.stop.is_set():
            raise StoppedError
        worker = self._worker_for(item, unlimited=unlimited)
        measure = item.budget is not None
        if not isinstance(item, Case) or (item.action is None and step in ("open", "read", "device")):
            more = {"summary": True} if counts_only(item) else None
            result = worker.ask(step, self._path(item), more, measure=measure, limits=probe_limits)
        else:
            case = self._copies.shown(item)
            if case.kind == "repeated":
                worker.renew()  # what an earlier case has left behind must not reach a limit now
            result = run_multistep(
                worker, replace(case, steps=(step,)), probe_limits, measure=measure, rivals=self._rivals
            )
        result = result.reworded(self._copies.without_own_path)
        if self.stop.is_set():  # the signal handler killed the process
            raise StoppedError
        return result

    def _retry(self, item: Input, step: str, first: StepResult) -> StepResult:
        second = self._retry_alone(item, step, first)
        # Only the retry of a hang gets more time, and only the retry of a failed reservation gets more
        # address space.
        needs_time = second.outcome == "hang" and first.outcome != "hang"
        needs_space = (
            first.retry is not RetryReason.ADDRESS_SPACE and second.retry is RetryReason.ADDRESS_SPACE
        )
        if needs_time or needs_space:
            second = self._retry_alone(item, step, second)
        if (
            self._probe_limits is None
            or second.outcome in UNSAFE
            or first.retry is not RetryReason.PROBE_LIMIT
        ):
            return second
        # This reader needs more than others, and each unnecessary retry costs a process start.
        seconds, memory = 2 * self._probe_limits.seconds, 2 * self._probe_limits.memory_bytes
        self._probe_limits = replace(self._probe_limits, seconds=seconds, memory_bytes=memory).capped_by(
            self.limits
        )
        if second.wall_ms <= self.limits.seconds * 1000:
            return second
        note = (
            f"no answer within {self.limits.seconds:g} s, but an answer after {second.wall_ms / 1000:.0f} s "
            "when run alone"
        )
        return replace(second, message=f"{second.message}; {note}".lstrip("; "))

    def _retry_alone(self, item: Input, step: str, first: StepResult) -> StepResult:
        unlimited = first.retry is RetryReason.ADDRESS_SPACE
        worker = self._worker_for(item, unlimited=unlimited)
        with self.waiting() if first.outcome == "hang" else nullcontext():
            return retry_alone(worker, lambda: self._run(item, step, unlimited=unlimited), first)

    def _within_budget(self, item: Input, step: str, first: StepResult) -> StepResult:
        """Report that a case exceeded its budget only if it does so again when it runs alone.

        The case runs alone in a fresh process that has first read two small files.
        """
        result = within_budget(item, first)
        if not result.over_budget:
            return result
        worker = self._worker_for(item)
        worker.renew()
        warm_up(worker, step)
        second = self._run(item, step)
        clean = second.outcome not in (*UNSAFE, "harness-error")
        return within_budget(item, cheaper(first, second) if clean else first)

    def renew(self, item: Input) -> None:
        """Have a fresh process answer the next request about an input of this size."""
        self._worker_for(item).renew()

    @contextmanager
    def copy_of(self, case: Case) -> Iterator[Case]:
        """Provide the case with its copied input for the duration of the block. Raises ManifestError."""
        try:
            yield self._copies.shown(case)
        finally:
            self._copies.release(case)

    def _worker_for(self, item: Input, *, unlimited: bool = False) -> Worker:
        if not unlimited and item.size < self.limits.memory_bytes:
            return self._worker
        if self._unlimited is None:
            self._unlimited = make_worker(
                self.target, self.limits, self.profile, device=self.device, unlimited_address_space=True
            )
        return self._unlimited

    def _rivals(self, count: int) -> list[Worker]:
        while len(self._savers) < count:
            self._savers.append(make_worker(self.target, self.limits, self.profile, device=self.device))
            self._savers[-1].start()
        return self._savers[:count]

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._copies.close)
            for worker in (self._worker, self._unlimited, *self._savers):
                if worker is not None:
                    stack.callback(worker.close)


def is_single_question(item: Input) -> bool:
    """Return whether an input is a single request on an existing file, without measurements."""
    if not isinstance(item, Case):
        return True
    return item.kind == "read" and item.action is None and item.budget is None and not counts_only(item)


def counts_only(item: Input) -> bool:
    """Return whether a case checks only the number of tensors, so answers need not list them."""
    return isinstance(item, Case) and item.counted


def within_budget(item: Input, result: StepResult) -> StepResult:
    if item.budget is None or result.outcome in UNSAFE or result.outcome == "harness-error":
        return result
    return replace(result, over_budget=excesses(item.budget, result))


def warm_up(worker: Worker, step: str) -> None:
    """Run the step on two small files. If the step needs more than a file, run ``read`` instead."""
    with small_files() as paths:
        for path in paths:
            worker.ask(step if step in ("open", "read") else "read", path)


def run_multistep(
    worker: Worker,
    case: Case,
    limits: Limits | None = None,
    *,
    measure: bool = False,
    rivals: Callable[[int], Sequence[Worker]] | None = None,
) -> StepResult:
    """Run a case.

    With ``measure``, the result includes the combined costs of all requests. ``rivals(n)`` starts ``n`` more
    workers of the same implementation.
    """
    proxy = _Proxy(worker, case, limits, measure=measure, rivals=rivals)
    with scratch_folder("case") as folder:
        result = run_case(case, proxy, folder)
    nothing = StepResult("harness-error", result.message or "the case sent no request")
    last = proxy.answers[-1] if proxy.answers else nothing
    last = proxy.unaddressed(last).reworded(partial(without, folder))
    if measure:
        last = replace(
            last,
            spent_ms=_total(one.spent_ms for one in proxy.answers),
            read_bytes=_total(one.read_bytes for one in proxy.answers),
            peak_bytes=max((a.peak_bytes for a in proxy.answers if a.peak_bytes is not None), default=None),
        )
    last = replace(last, wall_ms=round(sum(one.wall_ms for one in proxy.answers), 3))
    if proxy.ended or last.outcome == "harness-error":
        return last
    content = {f.name: getattr(result, f.name) for f in fields(Answer) if f.name not in _OF_WORKER}
    if case.kind == "remote" and result.outcome == "accept":
        content["message"] = result.message  # what the server sent
    return replace(last, **content)


def _total(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


N = TypeVar("N", int, float)
_OF_WORKER = {"message", "exception", "documented"}


SHOWN_URL = "http://server/owner/model/resolve/main/file.safetensors"
"""Replaces the server address in messages of an implementation."""


class _RefusedError(Exception):
    """The implementation rejected the input, or cannot handle further requests."""


class _Proxy:
    """An implementation object that is backed by a worker. ``ended`` is true after a crash or hang."""

    def __init__(
        self,
        worker: Worker,
        case: Case,
        limits: Limits | None,
        *,
        measure: bool,
        rivals: Callable[[int], Sequence[Worker]] | None,
    ) -> None:
        self._worker = worker
        self._rivals = rivals
        self._limits = limits
        self._measure = measure
        self._action: Mapping[str, Any] = case.action or {}
        self.limits_file_size = True  # the worker sets the limit, because this process writes other files
        self.answers: list[StepResult] = []
        self.ended = False
        self._url = ""

    def ask(self, step: str, path: Path | str, more: Mapping[str, Any] | None = None) -> StepResult:
        if self.ended:
            raise _RefusedError
        return self._answered(
            self._worker.ask(step, str(path), more, measure=self._measure, limits=self._limits)
        )

    def _answered(self, result: StepResult) -> StepResult:
        self.answers.append(result)
        self.ended = result.outcome not in ("accept", "reject", "unsupported")
        if result.outcome == "unsupported":
            raise NotImplementedError(result.message)
        if result.outcome != "accept":
            raise _RefusedError(result.message)
        return result

    def slice(self, path: Path, tensor: str, index: object) -> dict[str, Any]:  # noqa: ARG002 - see _action
        more = {"tensor": tensor, "index": self._action["index"]}
        return _only(self.ask("slice", path, more))

    def open(self, path: Path) -> dict[str, Any]:
        return _content(self.ask("open", path))

    def read(self, path: Path) -> dict[str, Any]:
        return _content(self.ask("read", path))

    def index(self, path: Path) -> dict[str, Any]:
        return {"tensors": self.ask("index", path).tensors or []}

    def write(self, path: Path, tensors: object, metadata: object) -> None:  # noqa: ARG002 - see _action
        self.ask("write", path, _parameters(self._action))

    def write_at_once(self, path: Path, actions: Sequence[Mapping[str, Any]]) -> None:
        if self._rivals is None:
            raise NotImplementedError("this program cannot run in several processes")
        workers = [self._worker, *self._rivals(len(actions) - 1)]
        requests = [Request("write", str(path), _parameters(action)) for action in actions]
        for worker, request in zip(workers, requests, strict=True):
            worker.send_ahead([request] * SAVES_IN_FLIGHT)
        results = [
            worker.ask(*request, limits=self._limits)
            for _ in range(SAVES_IN_FLIGHT)
            for worker, request in zip(workers, requests, strict=True)
        ]
        for result in results:
            self._answered(result)

    def usage(self) -> Usage:
        pid = self._worker.pid
        if pid is None:
            raise NotImplementedError("the harness cannot inspect the process of this program")
        return usage_of(pid)

    def save_sharded(self, folder: Path, *_given: object) -> None:
        keys = ("storages", "tensors", "metadata", "max_shard_size", "file_size_limit")
        self.ask("sharded", folder, {key: self._action[key] for key in keys if key in self._action})

    def export(self, path: Path, folder: Path) -> None:
        self.ask("export", path, {"folder": str(folder)})

    def resave(self, path: Path) -> None:
        self.ask("resave", path)

    def remote(self, url: str) -> dict[str, Any]:
        self._url = url
        return _content(self.ask("remote", url))

    def unaddressed(self, result: StepResult) -> StepResult:
        """Return a result whose messages contain the same server address in every run."""
        if not self._url:
            return result
        parts = urlsplit(self._url)
        words = {self._url: SHOWN_URL, parts.path: urlsplit(SHOWN_URL).path, parts.netloc: "server"}
        words |= {parts.path.split("/")[1]: "owner", f"{parts.port}": "port"}
        message, stderr = result.message, result.stderr
        for own, shown in words.items():
            message, stderr = message.replace(own, shown), stderr.replace(own, shown)
        return replace(result, message=message, stderr=stderr)

    def concurrent(self, path: Path, action: Mapping[str, Any]) -> dict[str, Any]:
        result = self.ask("concurrent", path, {"action": action})
        return {"tensors": result.tensors or []}

    def hold(self, path: Path) -> _Handle:
        self.ask("hold", path)
        return _Handle(self, path)


class _Handle:
    """A file that the worker holds open."""

    def __init__(self, proxy: _Proxy, path: Path) -> None:
        self._proxy = proxy
        self._path = path

    def tensor(self, name: str) -> Callable[[], dict[str, Any]]:
        self._proxy.ask("get", self._path, {"tensor": name})
        return lambda: _only(self._proxy.ask("look", self._path))

    def close(self) -> None:
        # The case tests what happened before, so a failed release adds no information.
        if not self._proxy.ended:
            self._proxy.ask("release", self._path)


SAVES_IN_FLIGHT = 4
"""Number of saves that each process receives at once, so that the saves of all processes overlap."""


def _parameters(action: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("storages", "tensors", "metadata", "file_size_limit")
    return {key: action[key] for key in keys if key in action}


def _content(result: StepResult) -> dict[str, Any]:
    content: dict[str, Any] = {"tensors": result.tensors}  # None for a program that reports only verdicts
    return {**content, "metadata": result.metadata} if result.has_metadata else content


def _only(result: StepResult) -> dict[str, Any]:
    rows = result.tensors or []
    if len(rows) != 1:
        raise _RefusedError(f"got {len(rows)} tensors instead of one")
    return rows[0]
