"""The session of one implementation: runs cases, retries doubtful answers alone, and judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Self

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.judging.verdicts import effect_of

from ..outcome import Implementation, KeptContent
from ..verdict.judge import CaseVerdict, Suspicion, judge, settle, suspicion_of
from .cases import TOO_LARGE, CaseRunner
from .uninitialised_memory import content_depends_on_heap

MAX_HEAP_CHECKS = 5
"""How many answers with wrong content to check for uninitialised memory in one run, in three processes each.
"""

MAX_RETRIES = 32
"""How many answers to retry in one run because earlier requests may have caused them."""


class Session:
    """The verdicts of one implementation, at most one for each case."""

    def __init__(self, runner: CaseRunner) -> None:
        self.runner = runner
        self.target = runner.target
        self._kept_content = KeptContent()
        self._verdicts: dict[str, CaseVerdict] = {}
        self._confirmed: set[Suspicion] = set()
        self._heap_checks_left = MAX_HEAP_CHECKS
        self._retries_left = MAX_RETRIES

    def start(self) -> Implementation:
        """Start the implementation, once. Raises StartError."""
        return self.runner.start()

    def verdicts(self, cases: Iterable[Case]) -> Iterator[CaseVerdict]:
        """Return the verdicts on the cases that can run. Raises as ``judge`` does."""
        self.start()
        cases = (case for case in cases if self.runner.steps(case))
        return (verdict for _, verdict in self.runner.run(cases, self.judge))

    def judge(self, case: Case) -> CaseVerdict:
        """Run and judge a case once. Raises the same exceptions as ``answers``."""
        known = self._verdicts.get(case.id)
        if known is None:
            results = self.runner.answers(case)
            try:
                known = judge(case, results, self.start(), self.runner.profile)
                known = self._trim_content(self._note_heap_content(self._recheck_alone(known)))
            except MemoryError:
                known = judge(case, dict.fromkeys(results, TOO_LARGE), self.start(), self.runner.profile)
            self._verdicts[case.id] = known
        return known

    def _recheck_alone(self, verdict: CaseVerdict) -> CaseVerdict:
        """Retry a case alone in a fresh process if earlier requests may have caused its answers.

        An answer is not retried if one of the same kind recurred when its case was run alone.
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
        self.runner.renew(case)
        alone = judge(case, self.runner.answers(case), self.start(), self.runner.profile)
        self.runner.renew(case)  # so that this file affects no later one
        self._confirmed.update(
            suspicion for judged in alone.steps.values() if (suspicion := suspicion_of(case, judged))
        )
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
            with self.runner.copy_of(case) as copy:
                note = content_depends_on_heap(self.target, copy, self.runner.limits)
        except ManifestError:
            return verdict
        if not note:
            return verdict
        first, *others = read.failures
        first = replace(first, detail=f"{first.detail}; {note}")
        noted = replace(read, detail=f"{read.detail}; {note}", failures=(first, *others))
        return replace(verdict, steps={**verdict.steps, "read": noted})

    def close(self) -> None:
        self.runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
