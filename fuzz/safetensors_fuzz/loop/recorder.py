"""Questions, wrong answers to them, and the recorder that turns wrong answers into findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from safetensors_conformance.worker.worker import StartError
from safetensors_corpus.judging.content import Difference
from safetensors_reference.rules.book import ProfileName

from ..finding import NOT_KNOWN, REPLAYS, Finding, bare
from .subjects import Slots, Subject

MAX_ABNORMAL = 4
"""Maximum number of similar abnormal terminations to examine for each implementation."""
STAGES = ("json", "schema", "accepted")


@dataclass(frozen=True)
class Mistake:
    """A wrong answer."""

    verdict: str
    text: str
    kind: str
    rules: tuple[str, ...] = ()
    """Rules that the answer violates according to the judge."""
    outcome: str = ""
    """Outcome of the answer, unless ``kind`` already determines it."""
    reports: bool = False
    """Whether the implementation accepted the input and reported content."""
    differences: tuple[Difference, ...] = ()
    """How two implementations differ, as seen by each of them."""


@dataclass(frozen=True)
class Cause:
    """The rules that explain a wrong answer, beginning with the main rule, and a one-line reason."""

    rules: tuple[str, ...] = ()
    words: str = ""


def unknown(why: str) -> Cause:
    return Cause((), f"{NOT_KNOWN}: {why}")


@dataclass(frozen=True)
class Keys:
    """Keys by which a run recognizes repeated and redundant mistakes."""

    signature: str
    answer: str
    """Key of the answer before shrinking. A run shrinks only the first answer with the same key."""
    covers: tuple[str, ...] = ()
    covered_by: tuple[str, ...] = ()
    """Signatures, or keys in ``covers``, of findings that make this mistake redundant."""
    termination: str = ""
    """Key of an abnormal termination. A run examines only a few terminations with the same key."""


@dataclass(frozen=True)
class Account:
    """Details of a mistake that a finding reports."""

    cause: Cause
    verdict: str
    got: Mapping[str, str]


class Question(Protocol):
    """An input and its expected answer. The properties have the same meaning as in a ``Finding``."""

    @property
    def rules(self) -> tuple[str, ...]: ...
    @property
    def codes(self) -> tuple[str, ...]: ...
    @property
    def subject(self) -> str: ...
    @property
    def files(self) -> Mapping[str, bytes]: ...
    @property
    def expected(self) -> str: ...
    @property
    def expectation(self) -> Mapping[str, Any]: ...
    @property
    def entry(self) -> str: ...
    @property
    def action(self) -> Mapping[str, Any] | None: ...
    @property
    def where(self) -> tuple[int, int] | None: ...
    @property
    def engine(self) -> str:
        """Engine that generates the questions, or an empty string for the engine of the run."""

    @property
    def size(self) -> int:
        """Total size of all files in bytes, or the length of the action for a write."""

    def examine(self, examiner: Examiner) -> Mistake | None:
        """Run the examiner's subject. Returns the mistake in its answer, or None if the answer is right."""

    def shrink(self, same: Callable[[Question], bool], seconds: float) -> Question:
        """Return the simplest question found for which ``same`` returns True."""

    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:
        """Return whether another question with the same verdict shows the same bug."""

    def keys(self, examiner: Examiner, mistake: Mistake) -> Keys: ...

    def explain(self, examiner: Examiner, mistake: Mistake) -> Account:
        """Return the cause of a mistake. This may run the examiner's subject again."""


class Examiner:
    """Runs one step of one implementation, or of two implementations whose answers are compared."""

    def __init__(self, subjects: Sequence[Subject], step: str, profile: ProfileName | None) -> None:
        self.subjects, self.step, self.profile = subjects, step, profile
        self._slots: Slots | None = None

    @property
    def subject(self) -> Subject:
        return self.subjects[0]

    def path(self, data: bytes) -> str:
        """Write a file for the subject. The file exists until the next call or ``close``."""
        self._slots = self._slots or Slots(1)
        return self._slots.put(data)

    def accepts(self, data: bytes) -> bool:
        return self.subject.answer(data, self.path(data), self.step).outcome == "accept"

    def close(self) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None


@dataclass
class Tally:
    """Counts and findings of a run. They are updated in place so that they are valid even after Ctrl-C."""

    execs: int = 0
    skipped: int = 0
    """Number of plans that raised PlanError."""
    seconds: float = 0.0
    stages: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of inputs for each combination of outcomes or, for plans, for each step and verdict."""
    tuples: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    known: Counter[str] = field(default_factory=Counter)
    unstable: dict[str, int] = field(default_factory=dict)
    """For each signature, the number of fresh processes that reproduced the answer."""
    kept: int = 0

    def sum_up(self, parts: Iterable[Tally]) -> None:
        """Replace the counts with sums over several processes. The findings do not change."""
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
    """Settings of a campaign."""

    seed: int = 1
    max_execs: int | None = None
    seconds: float | None = None
    profile: ProfileName | None = None
    shrink_seconds: float = 1.0
    known: Callable[[str], bool] = lambda _: False
    engine: str = "outcome"
    first: bool = False
    """Whether the campaign stops at the first finding."""
    feedback: bool = True
    """Whether inputs become bases for others."""


class Recorder:
    """Collects wrong answers and reports one finding for each signature."""

    def __init__(self, settings: Settings, tally: Tally, keep: Callable[[Finding], None]) -> None:
        self._settings, self._tally, self._keep = settings, tally, keep
        self._handled: set[str] = set()
        self._marks: set[str] = set()
        self._repeated: Counter[tuple[str, str]] = Counter()

    def record(self, examiner: Examiner, question: Question, mistake: Mistake) -> None:
        keys = question.keys(examiner, mistake)
        if self._is_covered(keys) or keys.answer in self._handled:
            return
        self._handled.add(keys.answer)
        if keys.termination:
            self._repeated[examiner.subject.name, keys.termination] += 1
            if self._repeated[examiner.subject.name, keys.termination] > MAX_ABNORMAL:
                return
        if len(question.rules) <= 1 and self._is_known(keys.signature):
            # If the input breaks several rules, one of the faults may be a new finding on its own.
            self._marks.update(keys.covers)
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

        small = question.shrink(same, self._settings.shrink_seconds)
        again = small.examine(examiner)
        if again is None:  # the wrong answer depended on the state of the process
            small, again = question, mistake
        keys = small.keys(examiner, again)
        signature = keys.signature
        if self._is_known(signature):
            self._marks.update(keys.covers)
            return
        if signature in self._tally.findings or self._is_covered(keys):
            return
        replays = sum(self._is_repeated(examiner, small, again) for _ in range(REPLAYS))
        if replays < REPLAYS:  # an unstable finding is not kept, so its cause is irrelevant
            self._tally.unstable[signature] = replays
            return
        account = small.explain(examiner, again)
        finding = Finding(
            step=examiner.step,
            verdict=account.verdict,
            signature=signature,
            rules=account.cause.rules,
            cause=account.cause.words,
            codes=small.codes,
            expected=small.expected,
            expectation=small.expectation,
            got=account.got,
            versions={subject.name: subject.version for subject in examiner.subjects},
            files=small.files,
            entry=small.entry,
            action=small.action,
            where=small.where,
            engine=small.engine or self._settings.engine,
            seed=self._settings.seed,
            execs=self._tally.execs,
            size_found=question.size,
            replays=REPLAYS,
        )
        self._tally.findings[signature] = finding
        self._marks.update(keys.covers)
        self._keep(finding)

    def _is_repeated(self, examiner: Examiner, question: Question, mistake: Mistake) -> bool:
        try:
            for subject in examiner.subjects:
                subject.renew()
        except StartError:
            return False
        again = question.examine(examiner)
        return again is not None and (again.verdict, again.kind) == (mistake.verdict, mistake.kind)

    def _is_known(self, signature: str) -> bool:
        if not (self._settings.known(bare(signature)) or self._settings.known(signature)):
            return False
        self._tally.known[signature] += 1
        return True

    def _is_covered(self, keys: Keys) -> bool:
        return any(
            key in self._marks or key in self._tally.findings or self._is_known(key)
            for key in keys.covered_by
        )
