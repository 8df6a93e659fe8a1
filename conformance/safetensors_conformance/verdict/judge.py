"""Verdicts on the answers of one implementation, including the device checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from safetensors_corpus import Case
from safetensors_corpus.judging.answer import UNSAFE
from safetensors_corpus.judging.judge import Failure, Judgement, failed, failure_of, judge_step
from safetensors_corpus.judging.verdicts import effect_of, worst
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes.failures import INPUT, ORDER, message_class_of
from safetensors_reports.record.device_checks import CHECKS

from ..outcome import Implementation, StepResult

StepVerdict: TypeAlias = Judgement[StepResult]


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
    """Return the kind of a wrong answer that earlier requests may have caused, except in concurrent cases."""
    broken = [failure.property for failure in judged.failures]
    if case.kind == "concurrent" or judged.result.changed:
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
    """Judge whether a single option fits the answers to all cases of an open choice: (verdict, detail).

    If the choice is about a limit, the detail lists different answers. A rejection says nothing about the
    choice if the case also depends on a rule in ``refused``, for which the implementation rejects even valid
    files.
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
