"""Verdicts on the answers of one implementation, including the device checks."""

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

MAX_HEAP_CHECKS = 5
"""How many wrong contents to check for uninitialised memory in one run. Each check starts three processes."""

MAX_RETRIES = 32
"""How many answers to retry in one run because earlier requests may have caused them."""

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
        """The verdict of the last step, which represents the case.

        It is ``device`` only if no other step ran.
        """
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
                # The format description covers files. It does not say what libraries must do with a tensor
                # afterwards.
                basis = "official" if promise.rule else "ours"
                detail = f"{check.name}: {check.message}"
                broken.append(failure_of("content", promise.rule, level, check.name, detail, basis))
        if result.changed and result.outcome != "harness-error":
            broken.append(Failure("deviation:content", "", "ours", INPUT, result.changed))
        steps[step] = failed(result, [*judged.failures, *broken], judged) if broken else judged
    return CaseVerdict(case, steps)


Suspicion: TypeAlias = tuple[str, str]
"""Kind of answer that earlier requests may have caused: either the wording of a rejection or the property of
the content that is wrong.
"""


def _suspicion(case: Case, judged: StepVerdict) -> Suspicion | None:
    """Return the kind of a wrong answer that earlier requests may have caused, except in concurrent cases."""
    broken = [failure.property for failure in judged.failures]
    if case.kind == "concurrent" or judged.result.changed:
        return None
    if judged.result.outcome == "reject":
        return ("reject", message_class_of(judged.result.message, case)) if "outcome" in broken else None
    return ("content", broken[0]) if effect_of(judged.verdict) == "content" else None


def _settle(case: Case, first: StepVerdict, alone: StepVerdict) -> StepVerdict:
    """Return the verdict after retrying the step alone. An answer that does not recur is order-dependent."""
    if alone.result.outcome == "harness-error":
        return first
    if _suspicion(case, alone) or alone.result.outcome in UNSAFE:
        return alone
    detail = f"order-dependent: {alone.result.outcome} when run alone in a fresh process; {first.detail}"
    return failed(first.result, [replace(first.failures[0], rule="", property=ORDER, detail=detail)])


def only_checks(judged: StepVerdict) -> bool:
    return bool(judged.failures) and all(failure.property in CHECKS for failure in judged.failures)


def judge_choice(
    choice: str, verdicts: Iterable[CaseVerdict], refused: frozenset[str] = frozenset()
) -> tuple[str, str]:
    """Judge whether a single option fits the answers to all cases of an open choice: (verdict, detail).

    If the choice is about a limit, a reader may set its limit anywhere. Answers may then differ from case to
    case, and the detail lists them. ``refused`` contains the rules for which the implementation rejects even
    valid files. If a case also depends on such a rule, its rejection says nothing about the choice.
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


class Session(CaseRunner):
    """One implementation under test. Its choices and the report share a single verdict on each case."""

    _heap_checks_left = MAX_HEAP_CHECKS
    _retries_left = MAX_RETRIES

    @cached_property
    def _confirmed(self) -> set[Suspicion]:
        return set()

    @cached_property
    def _verdicts(self) -> dict[str, CaseVerdict]:
        return {}

    def verdicts(self, cases: Iterable[Case]) -> Iterator[CaseVerdict]:
        return (verdict for _, verdict in self.run((c for c in cases if self.steps(c)), self.judge))

    def judge(self, case: Case) -> CaseVerdict:
        """Run all available steps of a case and judge them. Later calls return the same verdict.

        Raises the same exceptions as ``answers``.
        """
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

        The first answer of each kind is retried. Later answers of that kind are retried only if the first one
        proved to be order-dependent. For example, a reader that has leaked all file descriptors rejects
        everything.
        """
        case = verdict.case
        suspicions = {
            step: suspicion
            for step, judged in verdict.steps.items()
            if judged.failures and (suspicion := _suspicion(case, judged))
        }
        if not suspicions or not self._retries_left or self._confirmed.issuperset(suspicions.values()):
            return verdict
        self._retries_left -= 1
        worker = self._worker_for(case)
        worker.renew()
        alone = judge(case, self.answers(case), self.start(), self.profile)
        worker.renew()  # so that this file cannot affect later ones
        self._confirmed.update(
            suspicion for judged in alone.steps.values() if (suspicion := _suspicion(case, judged))
        )
        steps = {step: _settle(case, verdict.steps[step], alone.steps[step]) for step in suspicions}
        return CaseVerdict(case, {**verdict.steps, **steps})

    def _trim_content(self, verdict: CaseVerdict) -> CaseVerdict:
        cut = {
            step: replace(judged, result=kept)
            for step, judged in verdict.steps.items()
            if (kept := self._kept_content.kept(judged.result)) is not judged.result
        }
        return replace(verdict, steps={**verdict.steps, **cut}) if cut else verdict

    def _note_heap_content(self, verdict: CaseVerdict) -> CaseVerdict:
        """Check whether wrong content comes from uninitialised memory.

        Only the first few such cases are checked.
        """
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
