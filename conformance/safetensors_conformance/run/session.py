"""Run the cases of one implementation, in order, and judge its answers."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeAlias, TypeVar

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.judging.answer import UNSAFE
from safetensors_corpus.judging.verdicts import effect_of
from safetensors_reports.text import visible

from ..case_verdict import CaseVerdict, Suspicion, judge, only_checks, settle, suspicion_of
from ..implementations.selectors import Target
from ..outcome import Implementation, KeptContent, RetryReason, StepResult
from ..programs.files import Copies, small_files
from ..worker.worker import PROBE_LIMITS, Limits, Request, Worker, make_worker, retry_alone
from .budget import cheaper, excesses
from .heap import content_depends_on_heap
from .multistep import run_multistep

MAX_IN_FLIGHT = 256
"""Maximum number of requests in flight, which nearly fills a pipe."""
BUNDLE_SIZE = 32
"""Number of requests in a bundle. The process works on them while the harness copies the next inputs."""
DEATHS_FOR_A_HANG = 10
"""How many deaths in a row count as one hang, because some readers die on each of up to 92 broken files."""
MAX_HEAP_CHECKS = 5
"""How many answers with wrong content to check for uninitialised memory in one run, in three processes each.
"""

MAX_RETRIES = 32
"""How many answers to retry in one run because earlier requests may have caused them."""

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
    counted = False

    @property
    def steps(self) -> tuple[str, ...]:
        return ("index",) if self.kind == "index" else ("open", "read")


Input: TypeAlias = Case | GivenFile
AnyInput = TypeVar("AnyInput", Case, Input)
Result = TypeVar("Result")


class Session:
    """Runs one implementation on inputs, and judges each case at most once.

    Hangs are retried inside the context manager ``waiting``.
    """

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
        self._sent = 0
        self._answered: set[str] = set()
        self._max_hangs = max_hangs
        self._last_step_only = last_step_only
        self._consecutive_failures = 0
        self._last_failed = ""
        self._recheck_inputs = False
        self._probe_limits = PROBE_LIMITS.capped_by(self.limits)
        self._kept_content = KeptContent()
        self._verdicts: dict[str, CaseVerdict] = {}
        self._confirmed: set[Suspicion] = set()
        self._heap_checks_left = MAX_HEAP_CHECKS
        self._retries_left = MAX_RETRIES

    def start(self) -> Implementation:
        """Start the implementation, once. Raises StartError."""
        if self.implementation is None:
            self.implementation = self._worker.start()
        return self.implementation

    def steps(self, item: Input) -> list[str]:
        if self.implementation is None:
            return []
        if isinstance(item, Case):
            steps = self.implementation.steps_of(item)
        else:
            steps = [step for step in item.steps if step in self.implementation.steps]
        return steps[-1:] if self._last_step_only else steps

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
        failed = DEATHS_FOR_A_HANG if "hang" in ends else 1
        self._consecutive_failures = self._consecutive_failures + failed if ends else 0
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
            more = {"summary": True} if item.counted else None
            result = worker.ask(step, self._path(item), more, measure=measure, limits=probe_limits)
        else:
            case = self._copies.shown(item)
            if case.kind == "repeated":
                worker.renew()  # what an earlier case has left behind must not reach a limit now
            alone = replace(case, steps=(step,))
            result = run_multistep(worker, alone, probe_limits, measure=measure, rivals=self._rivals)
        result = result.reworded(self._copies.without_own_path)
        if self.stop.is_set():  # the signal handler killed the process
            raise StoppedError
        return result

    def _retry(self, item: Input, step: str, first: StepResult) -> StepResult:
        second = self._retry_alone(item, step, first)
        # Only the retry of a hang gets more time, and only the retry of a failed reservation gets more
        # address space.
        needs_time = second.outcome == "hang" and first.outcome != "hang"
        space = RetryReason.ADDRESS_SPACE
        if needs_time or (second.retry is space and first.retry is not space):
            second = self._retry_alone(item, step, second)
        if (
            self._probe_limits is None
            or second.outcome in UNSAFE
            or first.retry is not RetryReason.PROBE_LIMIT
        ):
            return second
        # This reader needs more than others, and each unnecessary retry costs a process start.
        seconds, memory = 2 * self._probe_limits.seconds, 2 * self._probe_limits.memory_bytes
        doubled = replace(self._probe_limits, seconds=seconds, memory_bytes=memory)
        self._probe_limits = doubled.capped_by(self.limits)
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
            saver = make_worker(self.target, self.limits, self.profile, device=self.device)
            saver.template = self._worker.template
            self._savers.append(saver)
            saver.start()
        return self._savers[:count]

    def verdicts(self, cases: Iterable[Case]) -> Iterator[CaseVerdict]:
        """Return the verdicts on the cases that can run. Raises as ``judge`` does."""
        self.start()
        cases = (case for case in cases if self.steps(case))
        return (verdict for _, verdict in self.run(cases, self.judge))

    def judge(self, case: Case) -> CaseVerdict:
        """Run and judge a case once. Raises the same exceptions as ``answers``."""
        known = self._verdicts.get(case.id)
        if known is None:
            results = self.answers(case)
            try:
                known = judge(case, results, self.start(), self.profile)
                known = self._trim_content(self._note_heap_content(self._recheck_alone(known)))
            except MemoryError:
                known = judge(case, dict.fromkeys(results, TOO_LARGE), self.start(), self.profile)
            self._verdicts[case.id] = known
        return known

    def _recheck_alone(self, verdict: CaseVerdict) -> CaseVerdict:
        """Retry a case alone in a fresh process if earlier requests may have caused its answers.

        An answer is not retried if an earlier answer of the same kind recurred when its case ran alone.
        """
        case = verdict.case
        suspicions = {
            step: suspicion
            for step, judged in verdict.steps.items()
            if judged.failures and (suspicion := suspicion_of(case, judged))
        }
        if not suspicions or not self._retries_left or self._confirmed.issuperset(suspicions.values()):
            return verdict
        self._retries_left -= 1
        self._worker_for(case).renew()
        alone = judge(case, self.answers(case), self.start(), self.profile)
        self._worker_for(case).renew()  # so that this file affects no later one
        again = [suspicion_of(case, judged) for judged in alone.steps.values()]
        self._confirmed.update(suspicion for suspicion in again if suspicion)
        steps = {step: settle(case, verdict.steps[step], alone.steps[step]) for step in suspicions}
        return CaseVerdict(case, {**verdict.steps, **steps})

    def _trim_content(self, verdict: CaseVerdict) -> CaseVerdict:
        cut = {
            step: replace(judged, result=kept)
            for step, judged in verdict.steps.items()
            if (kept := self._kept_content.kept(judged.result)) is not judged.result
        }
        return replace(verdict, steps={**verdict.steps, **cut}) if cut else verdict

    def _note_heap_content(self, verdict: CaseVerdict) -> CaseVerdict:
        """Check whether wrong content comes from uninitialised memory, but only in the first few cases."""
        case, read = verdict.case, verdict.steps.get("read")
        if read is None or effect_of(read.verdict) != "content" or effect_of(verdict.verdict) != "content":
            return verdict
        if not self._heap_checks_left or case.kind != "read":
            return verdict
        if any(judged.result.changed for judged in verdict.steps.values()):
            return verdict
        self._heap_checks_left -= 1
        try:
            note = content_depends_on_heap(self.target, self._copies.shown(case), self.limits)
        except ManifestError:
            return verdict
        finally:
            self._copies.release(case)
        if not note:
            return verdict
        first, *others = read.failures
        first = replace(first, detail=f"{first.detail}; {note}")
        noted = replace(read, detail=f"{read.detail}; {note}", failures=(first, *others))
        return replace(verdict, steps={**verdict.steps, "read": noted})

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._copies.close)
            for worker in (self._worker, self._unlimited, *self._savers):
                if worker is not None:
                    stack.callback(worker.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def is_single_question(item: Input) -> bool:
    """Return whether an input is a single request on an existing file, without measurements."""
    if not isinstance(item, Case):
        return True
    return item.kind == "read" and item.action is None and item.budget is None and not item.counted


def within_budget(item: Input, result: StepResult) -> StepResult:
    if item.budget is None or result.outcome in UNSAFE or result.outcome == "harness-error":
        return result
    return replace(result, over_budget=excesses(item.budget, result))


def warm_up(worker: Worker, step: str) -> None:
    """Run the step on two small files. If the step needs more than a file, run ``read`` instead."""
    with small_files() as paths:
        for path in paths:
            worker.ask(step if step in ("open", "read") else "read", path)


def smoke(session: Session, cases: Iterable[Case]) -> str | None:
    """Run the smoke cases, which reveal a broken adapter. Return the problem, or None. Raises StartError."""
    wrong: dict[str, list[str]] = {}
    for case in cases:
        if not case.smoke or case.expect is None:
            continue
        verdict = session.judge(case)
        for step, judged in verdict.steps.items():
            # If a written file breaks the rules, the writer is at fault, however basic the case is.
            if step in ("write", "sharded") and judged.result.outcome == "accept":
                continue
            # A violated guarantee with the right content is not an adapter mistake, either.
            if step == "device" and only_checks(judged):
                continue
            # A crash on a broken file is not an adapter mistake, because a wrong adapter fails on other
            # files, too.
            if judged.result.outcome == "crash" and case.expect.outcome == "reject":
                continue
            # The same is true of a correct rejection that raises an undocumented exception or costs too much.
            if effect_of(judged.verdict) in ("exception", "cost"):
                continue
            if judged.verdict not in ("pass", "unsupported", "late-reject"):
                got = judged.detail or judged.result.outcome
                said = f"expected {case.expect.outcome}, got {visible(got, 500)}"
                wrong.setdefault(said, []).append(f"{case.id} ({step})")
    if not wrong:
        return None
    first = next(iter(wrong.values()))[0]
    lines = []
    for said, where in wrong.items():
        names = where if len(where) <= 2 else [where[0], f"{len(where) - 1} more"]
        lines.append(f"  {' and '.join(names)}: {said}")
    selector, case_id = session.target.selector, first.split(" ", 1)[0]
    connection = "call" if selector.startswith("exit:") else "adapter"
    return "\n".join(
        [
            f"the {connection} of {selector!r} is probably wrong, because it fails the most basic files",
            *lines,
            f"run one of them alone: stc run --impl {shlex.quote(selector)} --case {case_id} --no-smoke",
            "if the mistake is in the program under test, run everything with --no-smoke",
        ]
    )
