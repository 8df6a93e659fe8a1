"""The verdict on all steps of a case, with what the step ``device`` saw besides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from safetensors_corpus import Case
from safetensors_corpus.judging.judge import Failure, Judgement, failed, failure_of, judge_step
from safetensors_corpus.judging.verdicts import worst
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes.failures import INPUT
from safetensors_reports.record.device_checks import CHECKS

from ..worker.device import failed_checks
from ..worker.outcome import Implementation, StepResult

StepVerdict: TypeAlias = Judgement[StepResult]


@dataclass(frozen=True)
class CaseVerdict:
    """The verdicts on all steps that were run of one case."""

    case: Case
    steps: Mapping[str, StepVerdict]

    @property
    def verdict(self) -> str:
        """The worst of the steps."""
        return worst(s.verdict for s in self.steps.values())

    @property
    def final(self) -> StepVerdict:
        """The verdict of the last step; it speaks for the case in a choice and in a comparison.

        What a device was given does so only where nothing else was asked.
        """
        last = [judged for step, judged in self.steps.items() if step != "device"]
        return (last or list(self.steps.values()))[-1]


def judge(
    case: Case, results: Mapping[str, StepResult], who: Implementation, profile: str | None
) -> CaseVerdict:
    """Judge the results of all steps of one case."""
    steps = {s: with_checks(judge_step(case, s, results, who.lacks, profile), results[s]) for s in results}
    return CaseVerdict(case, steps)


def with_checks(judged: StepVerdict, result: StepResult) -> StepVerdict:
    """Add the promises of the step ``device`` that do not hold, and that the input was changed."""
    broken = [_broken(check.name, check.message) for check in failed_checks(result)]
    if result.changed and result.outcome != "harness-error":
        broken.append(Failure("deviation:content", "", "ours", INPUT, result.changed))
    return failed(result, [*judged.failures, *broken], judged) if broken else judged


def _broken(name: str, message: str) -> Failure:
    promise = CHECKS[name]
    level = "should" if promise.verdict == "not-strict" else "must"
    found = failure_of("content", promise.rule, level, name, f"{name}: {message}")
    return replace(found, basis=found.basis if promise.rule else "ours")


def only_checks(judged: StepVerdict) -> bool:
    """Return whether nothing but promises of the step ``device`` is broken."""
    return bool(judged.failures) and all(failure.property in CHECKS for failure in judged.failures)


def judge_choice(choice: str, verdicts: Iterable[CaseVerdict]) -> tuple[str, str]:
    """Judge whether the answers to all cases of an open choice fit one option: (verdict, detail).

    A limit may lie anywhere, so there the answers may differ from case to case; where is told.
    """
    answers = {v.case.id: v.final.options for v in verdicts if v.final.options}
    if not answers:
        return "pass", "no case of this choice gave an answer"
    common = set.intersection(*(set(options) for options in answers.values()))
    if common:
        return f"choice:{'|'.join(sorted(common))}", ""
    spoken = "; ".join(f"{case} {'|'.join(options)}" for case, options in list(answers.items())[:8])
    if rule_book().choices[choice].limit:
        return "choice:limited", spoken
    return "choice-inconsistent", f"no single option of {choice} explains: {spoken}"
