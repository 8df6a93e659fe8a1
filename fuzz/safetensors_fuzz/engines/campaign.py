"""A campaign generates files and plans, runs every implementation, and records wrong answers.

The campaign examines wrong answers again, shrinks their inputs, and reports one finding for each signature.
This process works on some files while the implementations read other files in separate processes.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from safetensors_conformance.outcome import StepResult
from safetensors_conformance.programs.launcher import folder_in_memory
from safetensors_conformance.worker.worker import StartError
from safetensors_corpus.features.tree import EARLIER, File, parse
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reference.rules.book import ProfileName

from ..finding import REPLAYS, Finding, bare
from ..grammar.grammar import Grammar
from ..loop.cross_check import PairQuestion
from ..loop.question import Examiner, FileQuestion, Keys, Mistake, Question, opinion
from ..loop.subjects import PROVE, Slots, StepError, Subject, quick_header
from ..plans import PLAN_KINDS, plan_of
from ..plans.question import PlanError, mistake_of
from .new_inputs import NewInputs, rejection_key

BATCH = 64
"""Number of inputs sent in one batch. Waking up a process takes longer than reading a small file."""
EXPLAIN_EVERY = 8
"""One in this many inputs is explained even if the subjects rejected it with familiar messages."""
MAX_ABNORMAL = 4
"""Maximum number of similar abnormal terminations to examine for each implementation."""
STAGES = ("json", "schema", "accepted")


@dataclass
class Tally:
    """Counts and findings of a run. They are updated in place so that they are valid even after Ctrl-C."""

    execs: int = 0
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
        for name in ("execs", "kept"):
            setattr(self, name, sum(getattr(row, name) for row in rows))
        self.tuples = max((row.tuples for row in rows), default=0)
        self.seconds = max((row.seconds for row in rows), default=0.0)
        for name in _COUNTERS:
            setattr(self, name, sum((getattr(row, name) for row in rows), Counter[str]()))
        for row in rows:
            self.unstable.update(row.unstable)

    def counts(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "findings"}

    @classmethod
    def of_counts(cls, counts: Mapping[str, Any]) -> Tally:
        counters: dict[str, Any] = {name: Counter(counts[name]) for name in _COUNTERS}
        return cls(**{**counts, **counters})


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


@dataclass(slots=True)
class Sample:
    """An input that the campaign is processing."""

    file: File
    data: bytes
    path: str


class Campaign:
    """One run of the engine over several subjects."""

    def __init__(
        self,
        subjects: Sequence[Subject],
        settings: Settings,
        *,
        keep: Callable[[Finding], None] = lambda _: None,
        progress: Callable[[Tally], None] = lambda _: None,
        store: Callable[[bytes], None] = lambda _: None,
        tally: Tally | None = None,
    ) -> None:
        self.tally = tally if tally is not None else Tally()
        self._subjects = subjects
        self.settings = settings
        self.progress = progress
        self._new = NewInputs(store)

        def on_finding(finding: Finding) -> None:
            keep(finding)
            progress(self.tally)

        self._recorder = Recorder(settings, self.tally, on_finding)
        self._grammar = Grammar(random.Random(settings.seed))  # noqa: S311 - reproducible on purpose
        self._rejected: dict[tuple[object, ...], FileQuestion] = {}
        self._steps = [
            (number, step, subject.answer)
            for number, subject in enumerate(subjects)
            for step in subject.steps
        ]
        self._proving = next(((number, step) for number, step, _ in self._steps if step == PROVE), None)
        self._began = 0.0
        self.answers: dict[tuple[int, str], StepResult] = {}
        """Answers to the latest file, by subject number and step."""

    def run(self, start: Iterable[bytes] = ()) -> Tally:
        """Run files until a limit is reached, beginning with the files ``start`` of an earlier run."""
        self._began = time.monotonic()
        with Slots(3 * BATCH) as slots:
            try:
                waiting: list[Sample] = []
                source = iter(start)
                while True:
                    ahead = self._next(source, slots, self.tally.execs + len(waiting))
                    for subject in self._subjects:
                        subject.announce([(sample.data, sample.path) for sample in ahead])
                    for sample in waiting:
                        self._process(sample)
                    waiting = ahead
                    self.tally.seconds = time.monotonic() - self._began
                    self.progress(self.tally)
                    if not waiting:
                        return self.tally
            finally:
                self.tally.seconds = time.monotonic() - self._began

    def plans(self, steps: Sequence[str], most: int | None, seconds: float | None) -> Tally:
        """Run plans for each step in turn until the limit on inputs or time is reached. Raises StepError."""
        usable = [step for step in steps if any(step in subject.plan_steps for subject in self._subjects)]
        if not usable:
            raise StepError(f"none of the implementations supports any of the steps {', '.join(steps)}")
        tally = self.tally
        began, before, first = time.monotonic(), tally.seconds, tally.execs
        for turn in itertools.count():
            tally.seconds = before + time.monotonic() - began
            late = seconds is not None and tally.seconds - before >= seconds
            if late or (most is not None and tally.execs - first >= most):
                break
            step = usable[turn % len(usable)]
            try:
                question = PLAN_KINDS[step].question(plan_of(step, self.settings.seed, turn // len(usable)))
            except PlanError:
                continue
            tally.execs += 1
            for subject in self._subjects:
                if step in subject.plan_steps:
                    examiner = Examiner([subject], step, self.settings.profile)
                    with scratch(step):
                        judged = question.run(examiner)
                        tally.outcomes[f"{step}: {kind_of(judged.verdict)}"] += 1
                        mistake = mistake_of(judged)
                        if mistake is not None:
                            self._recorder.record(examiner, question, mistake)
            self.progress(tally)
        return tally

    def run_one(self, data: bytes, slots: Slots, file: File | None = None) -> None:
        """Run an input from an external engine."""
        sample = Sample(file if file is not None else _base(data), data, slots.put(data))
        for subject in self._subjects:
            subject.announce([(sample.data, sample.path)])
        self._process(sample)

    def _next(self, start: Iterable[bytes], slots: Slots, made: int) -> list[Sample]:
        limit, seconds = self.settings.max_execs, self.settings.seconds
        count = BATCH if limit is None else min(BATCH, limit - made)
        if count <= 0 or (seconds is not None and time.monotonic() - self._began >= seconds):
            return []
        if self.settings.first and self.tally.findings:
            return []
        out = [Sample(_base(data), data, slots.put(data)) for data in itertools.islice(start, count)]
        while len(out) < count:
            file = self._grammar.input(self._new.bases)
            data = file.render()
            out.append(Sample(file, data, slots.put(data)))
        return out

    def _process(self, sample: Sample) -> None:
        tally = self.tally
        tally.execs += 1
        data, path = sample.data, sample.path
        answers = self.answers = {(number, step): ask(data, path, step) for number, step, ask in self._steps}
        tally.outcomes[" / ".join([result.outcome for result in answers.values()])] += 1
        key = rejection_key(sample.file.faults, answers.values())
        earlier = None if key is None else self._rejected.get(key)
        if earlier is not None and tally.execs % EXPLAIN_EVERY:
            if self._proving is None:
                unproved = quick_header(data) is None
            else:
                unproved = answers[self._proving].outcome == "unsupported"
            if unproved:
                self._count(earlier)
                return
        question = opinion(data, self.settings.profile, likely_valid=not sample.file.faults)
        if key is not None and question.header is None:
            self._rejected[key] = question
        self._count(question)
        if self._new.is_new(sample.file, question.rules, answers.values()) and self.settings.feedback:
            self._new.keep(sample.file, data)
        tally.tuples, tally.kept = self._new.tuples, self._new.kept
        for (number, step), result in answers.items():
            mistake = question.mistake_in(result, self._subjects[number].lacks)
            if mistake is not None:
                examiner = Examiner([self._subjects[number]], step, self.settings.profile)
                self._recorder.record(examiner, question, mistake)
        if question.required == "open" and len(answers) > 1:
            self._compare_accepting(question, answers)

    def _compare_accepting(self, file: FileQuestion, answers: Mapping[tuple[int, str], StepResult]) -> None:
        accepted: dict[str, list[tuple[Subject, StepResult]]] = {}
        for (number, step), result in answers.items():
            if result.outcome == "accept":
                accepted.setdefault(step, []).append((self._subjects[number], result))
        question = PairQuestion.of(file)
        for step, ((first, answer), *others) in accepted.items():
            for second, result in others:
                mistake = question.compare(answer, result)
                if mistake is None:
                    continue
                both = Examiner([first, second], step, self.settings.profile)
                replaced = question.blame_on_valid_twin(mistake, both)
                for arguments in [(both, question, mistake)] if replaced is None else replaced:
                    self._recorder.record(*arguments)
                both.close()

    def _count(self, question: FileQuestion) -> None:
        if question.header is not None:
            self.tally.stages.update(STAGES)
            return
        self.tally.rules.update(question.rules)
        self.tally.stages.update(STAGES[: stage_of(question.codes)])


@contextlib.contextmanager
def scratch(step: str) -> Iterator[None]:
    """Create the temporary folders of a plan in memory, except for writes, whose files may be large."""
    before, where = tempfile.tempdir, None if step == "write" else folder_in_memory()
    if where is not None:
        tempfile.tempdir = where
    try:
        yield
    finally:
        tempfile.tempdir = before


def _base(data: bytes) -> File:
    file = parse(data)
    file.faults = EARLIER
    return file


def stage_of(codes: Collection[str]) -> int:
    """Return how many of the two stages, JSON and schema, an input passes despite these faults."""
    if any(code.startswith(("FRM_", "HDR_NOT", "HDR_BAD", "HDR_TOO")) for code in codes):
        return 0
    schema = ("ENT_", "DTY_BAD", "DTY_UNK", "SHP_BAD", "MET_", "OFF_BAD", "HDR_DUP")
    return 1 if any(code.startswith(schema) for code in codes) else 2


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
