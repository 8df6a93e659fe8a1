"""The verdict on all steps of a case, with what the step ``device`` saw besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from safetensors_corpus import Case
from safetensors_corpus.judging.judge import CaseVerdict, Failure, StepVerdict, failed, judge_step
from safetensors_corpus.judging.judge import failure_of as failure
from safetensors_reports.promises import CHECKS

from .device import failed_checks
from .outcomes import Implementation, StepResult


def judge(
    case: Case, results: Mapping[str, StepResult], who: Implementation, profile: str | None
) -> CaseVerdict:
    """Judge the results of all steps of one case."""
    steps = {s: with_checks(judge_step(case, s, results, who.lacks, profile), results[s]) for s in results}
    return CaseVerdict(case, steps)


def with_checks(judged: StepVerdict, result: StepResult) -> StepVerdict:
    """Add the promises of the step ``device`` that do not hold."""
    broken = [_broken(check.name, check.message) for check in failed_checks(result)]
    return failed(result, [*judged.failures, *broken], judged) if broken else judged


def _broken(name: str, message: str) -> Failure:
    promise = CHECKS[name]
    level = "should" if promise.verdict == "not-strict" else "must"
    found = failure("content", promise.rule, level, name, f"{name}: {message}")
    return replace(found, basis=found.basis if promise.rule else "ours")


def only_checks(judged: StepVerdict) -> bool:
    """Return whether nothing but promises of the step ``device`` is broken."""
    return bool(judged.failures) and all(failure.property in CHECKS for failure in judged.failures)
