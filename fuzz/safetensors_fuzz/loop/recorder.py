"""The way from a wrong answer to a finding: shrinking, confirming, and removing duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from safetensors_conformance.worker.worker import StartError
from safetensors_reference.rules.book import ProfileName

from ..findings.finding import REPLAYS, Finding, bare
from .question import Cause, Examiner, Mistake, Question

MAX_ABNORMAL = 4
"""How many abnormal ends of one key are examined, per implementation."""


@dataclass
class Tally:
    """Counts and findings of a run; updated in place, so that they are valid after Ctrl-C too.

    Attributes:
        execs: inputs tried.
        skipped: plans that make no sense or that no rule decides.
        seconds: wall time.
        stages: how many inputs got past ``json``, past ``schema``, and were ``accepted`` by the reference.
        rules: rule -> inputs that break it.
        outcomes: outcomes of all subjects, or step and verdict of a plan -> number of inputs.
        tuples: number of different outcome tuples.
        findings: signature -> finding.
        known: signature -> count, for known ones, which are not reported.
        unstable: signature -> how many fresh processes repeated the answer.
        kept: inputs kept as bases.
    """

    execs: int = 0
    skipped: int = 0
    seconds: float = 0.0
    stages: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    tuples: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    known: Counter[str] = field(default_factory=Counter)
    unstable: dict[str, int] = field(default_factory=dict)
    kept: int = 0

    def sum_up(self, parts: Iterable[Tally]) -> None:
        """Replace the counts with the sum over several processes; the findings stay."""
        rows = list(parts)
        for name in ("execs", "skipped", "kept"):
            setattr(self, name, sum(getattr(row, name) for row in rows))
        self.tuples = max((row.tuples for row in rows), default=0)
        self.seconds = max((row.seconds for row in rows), default=0.0)
        for name in _COUNTERS:
            total: Counter[str] = getattr(self, name)
            total.clear()
            for row in rows:
                total.update(getattr(row, name))
        for row in rows:
            self.unstable.update(row.unstable)

    def counts(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "findings"}

    @classmethod
    def of_counts(cls, counts: Mapping[str, Any]) -> Tally:
        tally = cls()
        for name, value in counts.items():
            setattr(tally, name, Counter(value) if name in _COUNTERS else value)
        return tally


_COUNTERS = ("stages", "rules", "outcomes", "known")


@dataclass(frozen=True)
class Settings:
    """Settings of a campaign.

    Attributes:
        max_execs: number of inputs; None for no limit.
        seconds: time limit; None for no limit.
        profile: profile that decides disputed behaviour; None for undisputed musts only.
        shrink_seconds: time limit for shrinking one finding.
        known: whether a signature is known; known ones are not reported.
        engine: engine named in findings.
        first: stop at the first finding.
        feedback: keep inputs as bases for others.
    """

    seed: int = 1
    max_execs: int | None = None
    seconds: float | None = None
    profile: ProfileName | None = None
    shrink_seconds: float = 1.0
    known: Callable[[str], bool] = lambda _: False
    engine: str = "outcome"
    first: bool = False
    feedback: bool = True


class Recorder:
    """Collects wrong answers, and keeps and reports one finding of each signature."""

    def __init__(self, settings: Settings, tally: Tally, keep: Callable[[Finding], None]) -> None:
        self._settings, self._tally, self._keep = settings, tally, keep
        self._handled: set[str] = set()
        self._marks: set[str] = set()
        self._repeated: Counter[tuple[str, str]] = Counter()

    def record(self, examiner: Examiner, question: Question, mistake: Mistake) -> None:
        """Turn a wrong answer into a finding, unless it is a duplicate."""
        name = examiner.subject.plain
        dedup_key = question.dedup_key(examiner.step, name, mistake)
        if self._is_covered(name, question, mistake) or dedup_key in self._handled:
            return
        self._handled.add(dedup_key)
        if kind := question.flaky_key(mistake):
            self._repeated[examiner.subject.name, kind] += 1
            if self._repeated[examiner.subject.name, kind] > MAX_ABNORMAL:
                return
        try:
            self._settle(examiner, question, mistake)
        finally:
            examiner.close()

    def _settle(self, examiner: Examiner, question: Question, mistake: Mistake) -> None:
        def same(other: Question) -> bool:
            again = other.examine(examiner)
            if again is None or again.verdict != mistake.verdict:
                return False
            return question.same_bug(mistake, other, again)

        name = examiner.subject.plain
        if len(question.rules) <= 1 and self._is_known(question.signature(name, mistake)):
            # One of several combined faults may be new by itself.
            self._marks.update(question.subsumes(name, mistake))
            return
        small = question.shrink(same, self._settings.shrink_seconds)
        again = small.examine(examiner)
        if again is None:  # the state of the process was the cause, not the input
            small, again = question, mistake
        signature, marks = small.signature(name, again), small.subsumes(name, again)
        if self._is_known(signature):
            self._marks.update(marks)
            return
        if signature in self._tally.findings or self._is_covered(name, small, again):
            return
        replays = sum(self._comes_again(examiner, small, again) for _ in range(REPLAYS))
        if replays < REPLAYS:  # an unstable one is not kept, so asking for its cause would be wasted
            self._tally.unstable[signature] = replays
            return
        cause = small.cause(again, examiner)
        finding = self._finding(examiner, small, again, cause, question.size)
        self._tally.findings[signature] = finding
        self._marks.update(marks)
        self._keep(finding)

    def _comes_again(self, examiner: Examiner, question: Question, mistake: Mistake) -> bool:
        try:
            for subject in examiner.subjects:
                subject.renew()
        except StartError:
            return False
        again = question.examine(examiner)
        return again is not None and (again.verdict, again.kind) == (mistake.verdict, mistake.kind)

    def _finding(
        self, examiner: Examiner, question: Question, mistake: Mistake, cause: Cause, size_found: int
    ) -> Finding:
        return Finding(
            step=examiner.step,
            verdict=question.verdict(mistake, cause),
            signature=question.signature(examiner.subject.plain, mistake),
            rules=cause.rules,
            cause=cause.words,
            codes=question.codes,
            expected=question.expected,
            expectation=question.expectation,
            got=question.got(examiner.subject.name, mistake),
            versions={subject.name: subject.version for subject in examiner.subjects},
            files=question.files,
            entry=question.entry,
            action=question.action,
            where=question.where,
            engine=question.engine or self._settings.engine,
            seed=self._settings.seed,
            execs=self._tally.execs,
            size_found=size_found,
            replays=REPLAYS,
        )

    def _is_known(self, signature: str) -> bool:
        if not (self._settings.known(bare(signature)) or self._settings.known(signature)):
            return False
        self._tally.known[signature] += 1
        return True

    def _is_covered(self, name: str, question: Question, mistake: Mistake) -> bool:
        return any(
            mark in self._marks or mark in self._tally.findings or self._is_known(mark)
            for mark in question.subsumed_by(name, mistake)
        )
