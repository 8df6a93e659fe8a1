"""Verdicts on the answers of one implementation, with what the step ``device`` saw besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.judging.judge import Failure, Judgement, failed, failure_of, judge_step
from safetensors_corpus.judging.verdicts import effect_of, worst
from safetensors_reference.rules.book import rule_book
from safetensors_reports.causes.failures import INPUT, ORDER, message_class_of
from safetensors_reports.record.device_checks import CHECKS

from ..run.cases import TOO_LARGE, CaseRunner
from ..worker.outcome import UNSAFE, Implementation, StepResult
from .uninitialised_memory import content_depends_on_heap

HEAP_CHECKS = 5
"""Wrong contents of one run that are looked into for uninitialised memory; each takes three starts."""

DOUBTS = 32
"""Answers of one run that are asked again since they may come of what was asked before."""

StepVerdict: TypeAlias = Judgement[StepResult]


@dataclass(frozen=True)
class CaseVerdict:
    """The verdicts on all steps that were run of one case."""

    case: Case
    steps: Mapping[str, StepVerdict]

    @property
    def verdict(self) -> str:
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
    steps = {
        step: with_checks(judge_step(case, step, results, who.lacks, profile, who.areas), result)
        for step, result in results.items()
    }
    return CaseVerdict(case, steps)


def with_checks(judged: StepVerdict, result: StepResult) -> StepVerdict:
    """Add the promises of the step ``device`` that do not hold, and that the input was changed."""
    broken = [_broken(check.name, check.message) for check in result.checks if check.status == "fail"]
    if result.changed and result.outcome != "harness-error":
        broken.append(Failure("deviation:content", "", "ours", INPUT, result.changed))
    return failed(result, [*judged.failures, *broken], judged) if broken else judged


def _broken(name: str, message: str) -> Failure:
    promise = CHECKS[name]
    level = "should" if promise.verdict == "not-strict" else "must"
    # The text describes files. What becomes of a tensor behind loading is expected of a library.
    basis = "official" if promise.rule else "ours"
    return failure_of("content", promise.rule, level, name, f"{name}: {message}", basis)


Doubt: TypeAlias = tuple[str, str]
"""Why an answer may come of what was asked before: the words of a refusal, or the part of a content."""


def _doubt(case: Case, judged: StepVerdict) -> Doubt | None:
    """Return why a wrong answer may come of what was asked before, None where none is wrong in that way.

    Threads may race once and not again, and that is what their cases are about.
    """
    broken = [failure.property for failure in judged.failures]
    if case.kind == "concurrent" or judged.result.changed:
        return None
    if judged.result.outcome == "reject":
        return ("reject", message_class_of(judged.result.message, case)) if "outcome" in broken else None
    return ("content", broken[0]) if effect_of(judged.verdict) == "content" else None


def _settled(case: Case, first: StepVerdict, alone: StepVerdict) -> StepVerdict:
    """Return the verdict on a wrong answer that was asked again alone.

    What does not come again is called order-dependent, and breaks no rule that its file is about.
    """
    if alone.result.outcome == "harness-error":
        return first
    if _doubt(case, alone) or alone.result.outcome in UNSAFE:
        return alone
    detail = f"order-dependent: {alone.result.outcome} when run alone in a fresh process; {first.detail}"
    return failed(first.result, [replace(first.failures[0], rule="", property=ORDER, detail=detail)])


def only_checks(judged: StepVerdict) -> bool:
    return bool(judged.failures) and all(failure.property in CHECKS for failure in judged.failures)


def judge_choice(
    choice: str, verdicts: Iterable[CaseVerdict], refused: frozenset[str] = frozenset()
) -> tuple[str, str]:
    """Judge whether the answers to all cases of an open choice fit one option: (verdict, detail).

    A limit may lie anywhere, so there the answers may differ from case to case; where is told.

    Args:
        choice: the choice.
        verdicts: of its cases.
        refused: rules whose own valid files are refused. Who refuses a case that needs such a rule besides
            the choice has said nothing about the choice.
    """
    answers = {
        v.case.id: v.final.options for v in verdicts if v.final.options and not _is_for_another(v, refused)
    }
    if not answers:
        return "pass", "no case of this choice gave an answer"
    common = set.intersection(*(set(options) for options in answers.values()))
    if common:
        return f"choice:{'|'.join(sorted(common))}", ""
    spoken = "; ".join(f"{case} {'|'.join(options)}" for case, options in list(answers.items())[:8])
    if rule_book().choices[choice].limit:
        return "choice:limited", spoken
    return "choice-inconsistent", f"no single option of {choice} explains: {spoken}"


def wrongly_refused(verdicts: Iterable[CaseVerdict]) -> frozenset[str]:
    return frozenset(v.case.rules[0] for v in verdicts if effect_of(v.final.verdict) == "reject")


def _is_for_another(verdict: CaseVerdict, refused: frozenset[str]) -> bool:
    options = verdict.case.options
    return not refused.isdisjoint(verdict.case.rules[1:]) and all(
        options[name].outcome == "reject" for name in verdict.final.options
    )


class Session(CaseRunner):
    """One implementation under test, whose answers are judged.

    Verdicts are kept per case, so that the steps of a case, its choice and its report share one run.
    """

    _heap_checks = HEAP_CHECKS
    _doubts_left = DOUBTS

    @cached_property
    def _sure(self) -> set[Doubt]:
        return set()

    @cached_property
    def _verdicts(self) -> dict[str, CaseVerdict]:
        return {}

    def verdicts(self, cases: Iterable[Case]) -> Iterator[CaseVerdict]:
        """Yield the verdicts on the cases that it has a step for, in order, until the run is to end.

        The implementation has been started. Raises StartError and GivenUpError.
        """
        return (verdict for _, verdict in self.run((c for c in cases if self.steps(c)), self.judge))

    def judge(self, case: Case) -> CaseVerdict:
        """Run all steps of a case that the implementation has and judge them.

        Raises StartError, GivenUpError and StoppedError.
        """
        known = self._verdicts.get(case.id)
        if known is None:
            known = self._verdicts[case.id] = self._judged(case, self.answers(case))
        return known

    def _judged(self, case: Case, results: Mapping[str, StepResult]) -> CaseVerdict:
        try:
            verdict = judge(case, results, self.start(), self.profile)
            return self._kept(self._noted(self._of_its_own(verdict)))
        except MemoryError:
            return judge(case, dict.fromkeys(results, TOO_LARGE), self.start(), self.profile)

    def _of_its_own(self, verdict: CaseVerdict) -> CaseVerdict:
        """Ask a case again alone in a fresh process where wrong answers may come of what was asked before.

        The first answer of each sort is, and each one of a sort that came of that: a reader that has leaked
        all descriptors refuses whatever comes.
        """
        case = verdict.case
        doubts = {
            step: doubt
            for step, judged in verdict.steps.items()
            if judged.failures and (doubt := _doubt(case, judged))
        }
        if not doubts or not self._doubts_left or self._sure.issuperset(doubts.values()):
            return verdict
        self._doubts_left -= 1
        worker = self._worker_for(case)
        worker.renew()
        alone = judge(case, self.answers(case), self.start(), self.profile)
        worker.renew()  # so that this file spoils none behind it
        self._sure.update(doubt for judged in alone.steps.values() if (doubt := _doubt(case, judged)))
        steps = {step: _settled(case, verdict.steps[step], alone.steps[step]) for step in doubts}
        return CaseVerdict(case, {**verdict.steps, **steps})

    def _kept(self, verdict: CaseVerdict) -> CaseVerdict:
        cut = {
            step: replace(judged, result=kept)
            for step, judged in verdict.steps.items()
            if (kept := self._memory.kept(judged.result)) is not judged.result
        }
        return replace(verdict, steps={**verdict.steps, **cut}) if cut else verdict

    def _noted(self, verdict: CaseVerdict) -> CaseVerdict:
        """Look whether wrong content is memory that was never written, for the first few such cases."""
        case, read = verdict.case, verdict.steps.get("read")
        if read is None or effect_of(read.verdict) != "content" or effect_of(verdict.verdict) != "content":
            return verdict
        if not self._heap_checks or case.kind != "read":
            return verdict
        if any(judged.result.changed for judged in verdict.steps.values()):
            return verdict
        self._heap_checks -= 1
        try:
            note = content_depends_on_heap(self.target, self._copies.shown(case), self.limits)
        except ManifestError:
            return verdict
        finally:
            self._copies.retire(case)
        return with_note(verdict, note) if note else verdict


def with_note(verdict: CaseVerdict, note: str) -> CaseVerdict:
    judged = verdict.steps["read"]
    first, *others = judged.failures
    first = replace(first, detail=f"{first.detail}; {note}")
    noted = replace(judged, detail=f"{judged.detail}; {note}", failures=(first, *others))
    return replace(verdict, steps={**verdict.steps, "read": noted})
