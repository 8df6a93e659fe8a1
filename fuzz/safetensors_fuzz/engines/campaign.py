"""A campaign generates files and plans, runs every implementation, and records wrong answers.

A file becomes a base for other files if it is the first with its combination of broken rules and answers.
This process works on some files while the implementations read other files in separate processes.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.features.tree import EARLIER, File, parse
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reports.text import message_class

from ..finding import Finding
from ..grammar.grammar import MAX_FAULTS, Grammar
from ..loop.cross_check import PairQuestion
from ..loop.expectation import FileQuestion, opinion
from ..loop.recorder import STAGES, Examiner, Recorder, Settings, Tally
from ..loop.subjects import PROVE, Slots, StepError, Subject, folder_in_memory, quick_header
from ..plans import PLAN_KINDS, plan_of
from ..plans.question import PlanError, mistake_of

BATCH = 64
"""Number of inputs sent in one batch. Waking up a process takes longer than reading a small file."""
POOL = 4000
EXPLAIN_EVERY = 8
"""One in this many inputs is explained even if the subjects rejected it with familiar messages."""
MESSAGE_CACHE = 4096
LARGEST_BASE = 4096


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
        self.progress, self._store = progress, store

        def on_finding(finding: Finding) -> None:
            keep(finding)
            progress(self.tally)

        self._recorder = Recorder(settings, self.tally, on_finding)
        self._grammar = Grammar(random.Random(settings.seed))  # noqa: S311 - reproducible on purpose
        self._pool: list[File] = []
        self._seen: set[tuple[object, ...]] = set()
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
        if lacking := [step for step in steps if step not in PLAN_KINDS]:
            raise StepError(
                f"no plans for step {', '.join(lacking)}; the steps with plans are: {', '.join(PLAN_KINDS)}"
            )
        usable = [step for step in steps if any(step in subject.plan_steps for subject in self._subjects)]
        if not usable:
            raise StepError(
                f"none of the implementations supports any of the steps {', '.join(steps) or 'none'}"
            )
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
                tally.skipped += 1
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

    def run_one(self, data: bytes, slots: Slots, file: File | None = None) -> bool:
        """Run an input from an external engine, and return whether it became a base."""
        before = self.tally.kept
        sample = Sample(file if file is not None else _base(data), data, slots.put(data))
        for subject in self._subjects:
            subject.announce([(sample.data, sample.path)])
        self._process(sample)
        return self.tally.kept > before

    def _next(self, start: Iterable[bytes], slots: Slots, made: int) -> list[Sample]:
        limit, seconds = self.settings.max_execs, self.settings.seconds
        count = BATCH if limit is None else min(BATCH, limit - made)
        if count <= 0 or (seconds is not None and time.monotonic() - self._began >= seconds):
            return []
        if self.settings.first and self.tally.findings:
            return []
        out = [Sample(_base(data), data, slots.put(data)) for data in itertools.islice(start, count)]
        while len(out) < count:
            file = self._grammar.input(self._pool)
            data = file.render()
            out.append(Sample(file, data, slots.put(data)))
        return out

    def _process(self, sample: Sample) -> None:
        tally = self.tally
        tally.execs += 1
        data, path = sample.data, sample.path
        answers = self.answers = {(number, step): ask(data, path, step) for number, step, ask in self._steps}
        tally.outcomes[" / ".join([result.outcome for result in answers.values()])] += 1
        key = _kind(sample.file.faults, answers.values())
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
        self._feedback(sample, question, answers)
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
        for step, ((first, answer), *others) in accepted.items():
            for second, result in others:
                question = PairQuestion.of(file, first, second)
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

    def _feedback(
        self, sample: Sample, question: FileQuestion, answers: Mapping[tuple[int, str], StepResult]
    ) -> None:
        file = sample.file
        shape = 0
        if len(file.faults) <= 1:
            members = getattr(file.root, "members", ())
            shape = min(len(members), 4) * 100 + min(len(file.data).bit_length(), 9) * 10
            shape += min(len(file.padding), 9)
        key = (question.rules, *[(r.outcome, class_of(r.message)) for r in answers.values()])
        new = key not in self._seen
        if new:
            self._seen.add(key)
            self.tally.tuples += 1
        context = (question.rules[:1], shape)
        if not new and context in self._seen:
            return
        self._seen.add(context)
        if not self.settings.feedback:
            return
        if len(sample.data) <= LARGEST_BASE and len(file.faults) < MAX_FAULTS:
            if len(self._pool) < POOL:
                self._pool.append(file)
            else:
                self._pool[self.tally.kept % POOL] = file
            self.tally.kept += 1
            self._store(sample.data)


@contextlib.contextmanager
def scratch(step: str) -> Iterator[None]:
    """Create the temporary folders of a plan in memory, except for writes, whose files may be large."""
    before, where = tempfile.tempdir, None if step == "write" else folder_in_memory()
    if where is not None:
        tempfile.tempdir = str(where)
    try:
        yield
    finally:
        tempfile.tempdir = before


@lru_cache(MESSAGE_CACHE)
def class_of(message: str) -> str:
    return message_class(message)


def _kind(faults: tuple[str, ...], answers: Iterable[StepResult]) -> tuple[object, ...] | None:
    """Return a key for an invalid input that every subject rejected, or None for any other input.

    Explaining a file takes most of the time, so the campaign explains only the first input with each key and
    a sample of the remaining inputs. The key ignores pairs of faults, because most pairs occur only once.
    """
    if not faults or faults == EARLIER:
        return None
    words: list[object] = [faults if len(faults) < MAX_FAULTS else MAX_FAULTS]
    for result in answers:
        if result.outcome not in ("reject", "unsupported"):
            return None
        words += (result.outcome, class_of(result.message))
    return tuple(words)


def _base(data: bytes) -> File:
    file = parse(data)
    file.faults = EARLIER
    return file


def stage_of(codes: Iterable[str]) -> int:
    """Return how many of the two stages, JSON and schema, an input passes despite these faults."""
    stage = 2
    for code in codes:
        if code.startswith(("FRM_", "HDR_NOT", "HDR_BAD", "HDR_TOO")):
            return 0
        if code.startswith(("ENT_", "DTY_BAD", "DTY_UNK", "SHP_BAD", "MET_", "OFF_BAD", "HDR_DUP")):
            stage = 1
    return stage
