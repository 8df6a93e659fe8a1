"""Running an implementation over cases: one session per implementation, one verdict per case."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Self, cast

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.judging.verdicts import effect_of
from safetensors_reports.text import visible

from ..verdict.budget import Metered, cheaper, excesses
from ..verdict.judge import CaseVerdict, judge, only_checks
from ..verdict.uninitialised_memory import with_heap_note
from ..worker.copies import Copies
from ..worker.make import make_worker
from ..worker.outcome import UNSAFE, Implementation, Memory, StepResult
from ..worker.warm_up import warm_up
from ..worker.worker import UNSURE, Limits, Request, StartError, Worker, asked_again
from .multistep import carry_out

if TYPE_CHECKING:
    from ..implementations.selectors import Target


class StoppedError(Exception):
    """The run is to end; what was being asked has no answer."""


class GivenUpError(Exception):
    """So many cases in a row hung or died that going on would only take time; the text says so."""


class Session:
    """One implementation under test, started when it is first needed.

    Results are kept per case, so that the steps of a case, its choice and its report share one run.
    """

    def __init__(
        self,
        target: Target,
        limits: Limits | None = None,
        profile: str | None = None,
        device: str | None = None,
        *,
        max_hangs: int = 0,
        stop: threading.Event | None = None,
    ) -> None:
        self.target = target
        self._max_hangs = max_hangs
        self._stop = stop or threading.Event()
        self._lost = 0
        self._last = ""
        self.profile = profile
        self.device = device
        self.limits = limits or Limits()
        self._worker = make_worker(target, self.limits, profile, device=device)
        self._roomy: Worker | None = None
        self._heap_checks = HEAP_CHECKS
        self._who: Implementation | None = None
        self._verdicts: dict[str, CaseVerdict] = {}
        self._plan: list[Case] = []
        self._place: dict[str, int] = {}
        self._sent = 0
        self._copies = Copies()
        self._memory = Memory()

    def start(self) -> Implementation:
        """Start the implementation, once. Raises StartError."""
        if self._who is None:
            self._who = self._worker.start()
        return self._who

    def plan(self, cases: Iterable[Case]) -> None:
        """Say which cases will be judged in which order, so that requests can be sent ahead."""
        self._plan = list(cases)
        self._place = {case.id: place for place, case in enumerate(self._plan)}

    def _send_ahead(self, case: Case, who: Implementation) -> None:
        """Keep the worker busy with the next cases of the plan, as far as they are plain questions."""
        place = self._place.get(case.id)
        if place is None or self._worker.in_flight > WINDOW // 2:
            return
        self._sent = max(self._sent, place) if self._worker.in_flight else place
        requests: list[Request] = []
        while self._sent < len(self._plan) and len(requests) + self._worker.in_flight < WINDOW:
            coming = self._plan[self._sent]
            shown = None if coming.id in self._verdicts or not plain(coming) else self._ready(coming)
            if shown is None:
                break
            path = str(shown.path)
            requests += [Request(step, path) for step in who.steps_of(coming)]
            self._sent += 1
        if requests:
            self._worker.send_ahead(requests)

    def _ready(self, case: Case) -> Case | None:
        """Return the case with its copy, None when there is none: that is told when its turn comes."""
        try:
            return self._copies.shown(case)
        except ManifestError:
            return None

    def judge(self, case: Case) -> CaseVerdict:
        """Run all steps of a case that the implementation has and judge them.

        Raises StartError, GivenUpError and StoppedError.
        """
        known = self._verdicts.get(case.id)
        if known is None:
            self._see_whether_to_go_on()
            try:
                known = self._verdicts[case.id] = self._kept(self._noted(self._judge(case)))
            finally:
                self._copies.retire(case)
            self._count(known)
        return known

    def _kept(self, verdict: CaseVerdict) -> CaseVerdict:
        """Return a verdict with as much of what was reported as may be kept; it is judged already."""
        steps = {
            step: replace(judged, result=self._memory.kept(judged.result))
            for step, judged in verdict.steps.items()
        }
        return replace(verdict, steps=steps)

    def _count(self, verdict: CaseVerdict) -> None:
        """Count cases in a row that hung or died; a hang takes as long as many deaths do."""
        ends = {step.result.outcome for step in verdict.steps.values()} & UNSAFE
        self._lost = self._lost + (DEATHS_FOR_A_HANG if "hang" in ends else 1) if ends else 0
        self._last = verdict.case.id

    def _see_whether_to_go_on(self) -> None:
        if self._stop.is_set():
            raise StoppedError
        if self._max_hangs and self._lost >= self._max_hangs * DEATHS_FOR_A_HANG:
            raise GivenUpError(
                f"stopped: too many cases in a row hung or died, the last was {self._last}; "
                f"the limit is --max-hangs {self._max_hangs}, or {DEATHS_FOR_A_HANG} times as many deaths"
            )

    def _noted(self, verdict: CaseVerdict) -> CaseVerdict:
        """Look whether wrong content is memory that was never written, for the first few such cases."""
        wrong = effect_of(verdict.verdict) == "content" and verdict.case.kind == "read"
        if self._heap_checks and wrong and not any(s.result.changed for s in verdict.steps.values()):
            self._heap_checks -= 1
            shown = replace(verdict, case=self._copies.shown(verdict.case))
            return replace(with_heap_note(shown, self.target, self.limits), case=verdict.case)
        return verdict

    def _judge(self, case: Case) -> CaseVerdict:
        who = self.start()
        steps = who.steps_of(case)
        results: dict[str, StepResult] = {}
        try:
            shown = self._copies.shown(case)
            if case.id in self._place and plain(case):
                self._send_ahead(case, who)
            if not self._copies.change(case):
                for step in steps:
                    result = self._run(shown, step)
                    if result.outcome in UNSAFE or result.message.startswith(UNSURE):
                        result = self._again_alone(shown, step, result)
                    results[step] = self._within_budget(shown, step, result)
            change = self._copies.change(case)
            if change:
                results = {step: self._of_new_copy(case, step, change) for step in steps}
        except ManifestError as err:
            results = dict.fromkeys(steps, StepResult("harness-error", str(err)))
        return judge(case, results, who, self.profile)

    def _of_new_copy(self, case: Case, step: str, change: str) -> StepResult:
        """Ask a step of a copy made anew, in a fresh process: what was asked before was of another file.

        Who changes that one, too, is to blame. Otherwise it may have been any file that was asked about
        before, or what that left running. Raises ManifestError.
        """
        self._copies.discard(case)
        shown = self._copies.shown(case)
        self._worker_for(shown).renew()
        result = self._within_budget(shown, step, self._run(shown, step))
        own = self._copies.change(case)
        if own:
            return replace(result, changed=own)
        note = f"{change} while others were asked about; asked again of a new copy"
        return replace(result, message=f"{result.message}; {note}".lstrip("; "))

    def _worker_for(self, case: Case, *, roomy: bool = False) -> Worker:
        return self._with_room() if roomy or case.size >= self.limits.memory_bytes else self._worker

    def _run(self, case: Case, step: str, *, roomy: bool = False) -> StepResult:
        if self._stop.is_set():
            raise StoppedError
        result = self._copies.plain(self._ask(case, step, roomy=roomy))
        if self._stop.is_set():  # and the process was ended for that
            raise StoppedError
        return result

    def _ask(self, case: Case, step: str, *, roomy: bool) -> StepResult:
        worker, measure = self._worker_for(case, roomy=roomy), case.budget is not None
        if step in ("open", "read", "device"):
            more = {"summary": True} if counts_only(case) else None
            return worker.ask(step, str(case.path), more, measure=measure)
        if not measure:
            return carry_out(worker, case)
        metered = Metered(worker)
        return metered.costs(carry_out(cast(Worker, metered), case))

    def _again_alone(self, case: Case, step: str, first: StepResult) -> StepResult:
        """Run a step that ended badly again in a fresh process and return what may be said of it."""
        # A limit of address space ends what only reserves memory; alone the memory in use is watched.
        roomy = first.outcome == "exhausted"
        worker = self._worker_for(case, roomy=roomy)
        return asked_again(worker, lambda: self._run(case, step, roomy=roomy), first)

    def _within_budget(self, case: Case, step: str, first: StepResult) -> StepResult:
        """Note what exceeds the case's budget, also when it is asked alone in a fresh process.

        That process is shown two small files before, so that what is loaded at the first use is no cost.
        """
        result = within_budget(case, first)
        if not result.over_budget:
            return result
        worker = self._worker_for(case)
        worker.renew()
        warm_up(worker, step)
        second = self._run(case, step)
        clean = second.outcome not in (*UNSAFE, "harness-error")
        return within_budget(case, cheaper(first, second) if clean else first)

    def _with_room(self) -> Worker:
        """Return a worker for files larger than the address space that the ordinary one may use."""
        if self._roomy is None:
            self._roomy = make_worker(self.target, self.limits, self.profile, device=self.device, roomy=True)
        return self._roomy

    def close(self) -> None:
        """End the worker and remove the copies that it was shown."""
        try:
            self._worker.close()
            if self._roomy is not None:
                self._roomy.close()
        finally:
            self._copies.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


DEATHS_FOR_A_HANG = 10
"""Deaths in a row that count as one hang. There are up to 92 broken files in a row, and a reader that dies at
each of them is to be told of all its cases."""
HEAP_CHECKS = 5
"""Wrong contents of one run that are looked into for uninitialised memory; each takes three starts."""
WINDOW = 256
"""Requests on their way at most. Waking the other process costs more than a small file does, so they go in
bundles; this many fill a pipe nearly."""


def plain(case: Case) -> bool:
    """True for a case that is a file to open and read, and nothing measured."""
    return case.kind == "read" and case.action is None and case.budget is None and not counts_only(case)


def counts_only(case: Case) -> bool:
    """True when the case knows only how many tensors there are, so that listing them would be a waste."""
    expectations = [case.expect] if case.expect is not None else list(case.options.values())
    return any("tensor_count" in (e.content or {}) for e in expectations)


def within_budget(case: Case, result: StepResult) -> StepResult:
    """Note the parts of the case's budget that a clean result exceeds."""
    if case.budget is None or result.outcome in UNSAFE or result.outcome == "harness-error":
        return result
    return replace(result, over_budget=excesses(case.budget, result))


def smoke(session: Session, cases: Iterable[Case]) -> str | None:
    """Tell a broken adapter from a broken reader: run the smoke cases; return the complaint or None.

    Raises StartError when the implementation does not start at all.
    """
    wrong = []
    for case in cases:
        if not case.smoke or case.expect is None:
            continue
        verdict = session.judge(case)
        for step, judged in verdict.steps.items():
            # A file that was written and breaks the rules is the writer's doing, however basic it is.
            if step == "write" and judged.result.outcome == "accept":
                continue
            # A promise that is broken behind the right content is no slip of the adapter either.
            if step == "device" and only_checks(judged):
                continue
            # Nor is a right refusal that comes as an undocumented exception, or at too high a cost.
            if effect_of(judged.verdict) in ("exception", "cost"):
                continue
            if judged.verdict not in ("pass", "unsupported", "late-reject"):
                got = judged.detail or judged.result.outcome
                said = f"expected {case.expect.outcome}, got {visible(got, 500)}"
                wrong.append(f"{case.id} ({step}): {said}")
    if not wrong:
        return None
    return (
        f"the adapter of {session.target.selector!r} is probably wrong: it fails the most basic files\n  "
        + "\n  ".join(wrong)
        + f"\ntry one by hand: stc run --impl {shlex.quote(session.target.selector)} --case "
        + shlex.quote(wrong[0].split(" ", 1)[0])
        + " --no-smoke"
    )


def result_row(verdict: CaseVerdict, step: str, expected_failure: bool) -> dict[str, Any]:
    """Return the run-record row of one step."""
    judged = verdict.steps[step]
    result, case = judged.result, verdict.case
    checks = {"checks": [check._asdict() for check in result.checks]} if step == "device" else {}
    worst = judged.failures[0] if judged.failures else None
    return {
        "case": case.id,
        "step": step,
        "outcome": result.outcome,
        "verdict": judged.verdict,
        "level": case.level,
        "importance": case.importance,
        "rules": list(case.rules),
        "rule": (worst.rule or None) if worst is not None else None,
        "basis": worst.basis if worst is not None else None,
        "failures": [asdict(failure) for failure in judged.failures],
        "choice": case.choice,
        "options": list(judged.options),
        "expected_failure": expected_failure,
        "detail": judged.detail,
        "message": result.message,
        "exception": result.exception,
        "documented": result.documented,
        "wall_ms": result.wall_ms,
        "cpu_ms": result.cpu_ms,
        "peak_bytes": result.peak_bytes,
        "noise": result.noise,
        "content": result.content,
        **checks,
    }


__all__ = ["GivenUpError", "Session", "StartError", "StoppedError", "result_row", "smoke"]
