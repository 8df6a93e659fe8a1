"""Verdicts on the answers of one implementation, including device checks, and the budget of a case."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from safetensors_corpus import Case
from safetensors_corpus.judging.answer import UNSAFE, Excess
from safetensors_corpus.judging.judge import Failure, Judgement, failed, failure_of, judge_step
from safetensors_corpus.judging.verdicts import effect_of, worst
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes.failures import INPUT, ORDER, message_class_of
from safetensors_reports.record.device_checks import CHECKS

from ..outcome import Implementation, StepResult

StepVerdict: TypeAlias = Judgement[StepResult]
N = TypeVar("N", int, float)

HEAD_ROOM = 2.0
"""Factor for the time budget: on one machine, parsing the same header took between 142 and 302 ms."""
REFERENCE_MS = 3.5
"""CPU time of ``known_work`` on the reference machine, close to the minimum of a thousand runs."""
TRIES = 7


@dataclass(frozen=True)
class CaseVerdict:
    """The verdicts on all steps of one case that ran."""

    case: Case
    steps: Mapping[str, StepVerdict]

    @property
    def verdict(self) -> str:
        return worst(s.verdict for s in self.steps.values())

    @property
    def final(self) -> StepVerdict:
        """The verdict of the last step other than ``device``, or of ``device`` if it is the only step."""
        last = [judged for step, judged in self.steps.items() if step != "device"]
        return (last or list(self.steps.values()))[-1]


def judge(
    case: Case, results: Mapping[str, StepResult], implementation: Implementation, profile: str | None
) -> CaseVerdict:
    steps = {}
    for step, result in results.items():
        judged = judge_step(case, step, results, implementation.lacks, profile, implementation.areas)
        broken = []
        for check in result.checks:
            if check.status == "fail":
                promise = CHECKS[check.name]
                level = "should" if promise.verdict == "not-strict" else "must"
                # The format description does not say what libraries must do with a tensor afterwards.
                basis = "official" if promise.rule else "ours"
                detail = f"{check.name}: {check.message}"
                broken.append(failure_of("content", promise.rule, level, check.name, detail, basis))
        if result.changed and result.outcome != "harness-error":
            broken.append(Failure("deviation:content", "", "ours", INPUT, result.changed))
        steps[step] = failed(result, [*judged.failures, *broken], judged) if broken else judged
    return CaseVerdict(case, steps)


Suspicion: TypeAlias = tuple[str, str]
"""Wording of a rejection, or property of wrong content, that earlier requests may have caused."""


def suspicion_of(case: Case, judged: StepVerdict) -> Suspicion | None:
    """Return the kind of a wrong answer if earlier requests, rather than chance, may have caused it."""
    broken = [failure.property for failure in judged.failures]
    if case.kind in ("concurrent", "contended", "repeated") or judged.result.changed:
        return None
    if judged.result.outcome == "reject":
        return ("reject", message_class_of(judged.result.message, case)) if "outcome" in broken else None
    return ("content", broken[0]) if effect_of(judged.verdict) == "content" else None


def settle(case: Case, first: StepVerdict, alone: StepVerdict) -> StepVerdict:
    """Return the verdict after retrying the step alone. An answer that does not recur is order-dependent."""
    if alone.result.outcome == "harness-error":
        return first
    if suspicion_of(case, alone) or alone.result.outcome in UNSAFE:
        return alone
    detail = f"order-dependent: {alone.result.outcome} when run alone in a fresh process; {first.detail}"
    return failed(first.result, [replace(first.failures[0], rule="", property=ORDER, detail=detail)])


def only_checks(judged: StepVerdict) -> bool:
    return bool(judged.failures) and all(failure.property in CHECKS for failure in judged.failures)


def judge_choice(
    choice: str, verdicts: Iterable[CaseVerdict], refused: frozenset[str] = frozenset()
) -> tuple[str, str]:
    """Return (verdict, detail): whether a single option fits the answers to all cases of an open choice.

    If the choice is about a limit, the detail lists the different answers. ``refused`` contains the rules for
    which the implementation rejects even valid files. If a case also depends on one of these rules, its
    rejection says nothing about the choice.
    """
    answers = {}
    for v in verdicts:
        outcomes = {v.case.options[name].outcome for name in v.final.options}
        if outcomes and (refused.isdisjoint(v.case.rules[1:]) or outcomes != {"reject"}):
            answers[v.case.id] = v.final.options
    if not answers:
        return "pass", "there were no answers to the cases of this choice"
    common = set.intersection(*(set(options) for options in answers.values()))
    if common:
        return f"choice:{'|'.join(sorted(common))}", ""
    spoken = "; ".join(f"{case} {'|'.join(options)}" for case, options in list(answers.items())[:8])
    if rule_book().choices[choice].limit:
        return "choice:limited", spoken
    return "choice-inconsistent", f"no single option of {choice} explains these answers: {spoken}"


def wrongly_refused(verdicts: Iterable[CaseVerdict]) -> frozenset[str]:
    return frozenset(v.case.rules[0] for v in verdicts if effect_of(v.final.verdict) == "reject")


def known_work() -> int:
    """Imitate a reader for a few milliseconds by scanning characters, adding and looking up values."""
    text, seen, total = '{"name": [0, 12345]}, ' * 40, dict.fromkeys(range(256), 0), 0
    for _ in range(20):
        for char in text:
            code = ord(char)
            total = (total * 31 + code) & 0xFFFFFFFF
            seen[code & 0xFF] += 1
    return total + len(seen)


def known_work_ms() -> float:
    best = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        known_work()
        best = min(best, time.thread_time() - began)
    return best * 1000


def machine_factor() -> float:
    """Return how many times slower this machine currently is than the reference machine, at least 1."""
    return max(known_work_ms() / REFERENCE_MS, 1.0)


def excesses(budget: Mapping[str, float], result: StepResult) -> tuple[Excess, ...]:
    reported = (
        None if result.cpu_ms is None else result.cpu_ms / 1000
    )  # reported by the worker, which is better than nothing
    used = {
        "seconds": reported if result.spent_ms is None else result.spent_ms / 1000,
        "peak_bytes": result.peak_bytes,
        "read_bytes": result.read_bytes,
    }
    over = []
    for name, value in used.items():
        allowed = budget.get(name)
        if allowed is None or value is None or value <= allowed:
            continue
        if name == "seconds":  # measured now, under the current load
            allowed *= HEAD_ROOM * machine_factor()
        if value > allowed:
            over.append(Excess(name, value, allowed))
    return tuple(over)


def cheaper(first: StepResult, second: StepResult) -> StepResult:
    return replace(
        first,
        cpu_ms=_least(first.cpu_ms, second.cpu_ms),
        spent_ms=_least(first.spent_ms, second.spent_ms),
        peak_bytes=_least(first.peak_bytes, second.peak_bytes),
        read_bytes=_least(first.read_bytes, second.read_bytes),
    )


def _least(one: N | None, other: N | None) -> N | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)
