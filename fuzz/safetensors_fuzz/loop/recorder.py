"""From a wrong answer to a finding: made smaller, asked again three times, told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from safetensors_conformance.worker.worker import StartError
from safetensors_reference.rules.book import ProfileName

from ..findings.finding import REPLAYS, Finding, bare
from .question import Cause, Examiner, Mistake, Question

ALIKE = 4
"""Bad ends of one kind that are looked into, per implementation."""


@dataclass
class Tally:
    """What a run did so far; filled in place, so that it is there after Ctrl-C too.

    Attributes:
        execs: inputs tried.
        skipped: plans that make no sense or that no rule decides.
        seconds: wall time.
        stages: how many inputs got past ``json``, past ``schema``, and were ``accepted`` by the reference.
        rules: rule -> inputs that break it.
        outcomes: what all answered, or step and verdict of a plan -> how often.
        tuples: different outcome tuples.
        findings: signature -> finding.
        known: signature -> how often, for those that are known and stay quiet.
        unstable: signature -> how often a fresh process gave the same answer again.
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


@dataclass(frozen=True)
class Settings:
    """What a run is asked to do.

    Attributes:
        seed: the same seed gives the same inputs and findings.
        max_execs: stop after so many inputs; None for no end.
        seconds: stop after so much time; None for no end.
        profile: whose options are demanded; None for undisputed musts only.
        shrink_seconds: time to make one finding smaller.
        known: says of a signature whether it is known; such ones stay quiet.
        engine: what findings name as their engine.
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
    """Takes wrong answers, keeps one finding of each signature in the tally and hands it on."""

    def __init__(self, settings: Settings, tally: Tally, keep: Callable[[Finding], None]) -> None:
        self._settings, self._tally, self._keep = settings, tally, keep
        self._handled: set[str] = set()
        self._marks: set[str] = set()
        self._repeated: Counter[tuple[str, str]] = Counter()

    def wrong(self, examiner: Examiner, question: Question, mistake: Mistake) -> None:
        """Turn a wrong answer into a finding, unless one like it was seen."""
        rough = examiner.rough(question, mistake)
        if self._is_covered(examiner, question, mistake) or rough in self._handled:
            return
        self._handled.add(rough)
        if kind := question.repeated(mistake):
            self._repeated[examiner.subject.name, kind] += 1
            if self._repeated[examiner.subject.name, kind] > ALIKE:
                return
        try:
            self._settle(examiner, question, mistake)
        finally:
            examiner.close()

    def _settle(self, examiner: Examiner, question: Question, mistake: Mistake) -> None:
        """Make a question smaller, ask it again, and keep the finding if it is new."""

        def same(other: Question) -> bool:
            again = examiner.examine(other)
            return again is not None and examiner.alike(question, mistake, other, again)

        small = question.shrunk(same, self._settings.shrink_seconds)
        again = examiner.examine(small)
        if again is None:  # it was the process's state and not the input
            small, again = question, mistake
        signature, marks = examiner.signature(small, again), examiner.marks(small, again)
        if self._is_known(signature):
            self._marks.update(marks)
            return
        if signature in self._tally.findings or self._is_covered(examiner, small, again):
            return
        replays = sum(self._comes_again(examiner, small, again) for _ in range(REPLAYS))
        if replays < REPLAYS:  # it is not kept, and would only be asked about in vain
            self._tally.unstable[signature] = replays
            return
        cause = examiner.cause(small, again)
        finding = self._finding(examiner, small, again, cause, question.size)
        self._tally.findings[signature] = finding
        self._marks.update(marks)
        self._keep(finding)

    def _comes_again(self, examiner: Examiner, question: Question, mistake: Mistake) -> bool:
        """Return whether a fresh process gives the same answer."""
        try:
            examiner.renew()
        except StartError:
            return False
        again = examiner.examine(question)
        return again is not None and (again.verdict, again.kind) == (mistake.verdict, mistake.kind)

    def _finding(
        self, examiner: Examiner, question: Question, mistake: Mistake, cause: Cause, size_found: int
    ) -> Finding:
        return Finding(
            step=examiner.step,
            verdict=question.verdict(mistake, cause),
            signature=examiner.signature(question, mistake),
            rules=cause.rules,
            cause=cause.words,
            codes=question.codes,
            **examiner.told(question, mistake),
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
        """Return whether a signature is one of those that stay quiet, and count it."""
        if not (self._settings.known(bare(signature)) or self._settings.known(signature)):
            return False
        self._tally.known[signature] += 1
        return True

    def _is_covered(self, examiner: Examiner, question: Question, mistake: Mistake) -> bool:
        """Return whether what is told, or known, says no less than a mistake."""
        return any(
            mark in self._marks or mark in self._tally.findings or self._is_known(mark)
            for mark in examiner.covered(question, mistake)
        )
