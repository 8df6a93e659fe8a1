"""The campaign: generates questions, runs every implementation, and has wrong answers recorded.

Files come from the outcome-tuple engine or from an external one; then the plans take turns. A file is kept as
a base for others when the tuple of the rules it breaks and of all answers is new. This process generates and
judges the files while the implementations work on them in theirs.
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

from safetensors_conformance.worker.outcome import StepResult
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reports.text import message_class

from ..findings.finding import Finding
from ..grammar.grammar import MAX_FAULTS, Grammar
from ..grammar.model import EARLIER, File, parse
from ..loop.cross_check import PairQuestion
from ..loop.expectation import FileQuestion, opinion
from ..loop.question import Examiner
from ..loop.recorder import Recorder, Settings, Tally
from ..loop.subjects import PROVE, Slots, StepError, Subject, folder_in_memory, quick_header
from ..plans import PLAN_KINDS, plan_of
from ..plans.question import PlanError, PlanQuestion, mistake_of

BATCH = 64
"""Inputs per round trip: waking another process costs more than reading a small file."""
POOL = 4000
EXPLAIN_EVERY = 8
"""Of broken inputs that were refused in a known wording, one in so many is explained all the same."""
MESSAGE_CACHE = 4096
"""Size of the cache of message classes: readers repeat the same messages."""
LARGEST_BASE = 4096


@dataclass(slots=True)
class Sample:
    """One input in progress."""

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
        """``keep`` is called with every finding, ``store`` with every input that is kept as a base."""
        self.tally = tally if tally is not None else Tally()
        self._subjects = subjects
        self.settings = settings
        self.progress, self._store, self._on_finding = progress, store, keep
        self._recorder = Recorder(settings, self.tally, self._keep)
        self._grammar = Grammar(random.Random(settings.seed))  # noqa: S311 - reproducible on purpose
        self._pool: list[File] = []
        self._seen: set[tuple[object, ...]] = set()
        self._refused: dict[tuple[object, ...], FileQuestion] = {}
        self._steps = [
            (number, step, subject.answer)
            for number, subject in enumerate(subjects)
            for step in subject.steps
        ]
        self._proving = next(((number, step) for number, step, _ in self._steps if step == PROVE), None)
        self._began = 0.0

    def _keep(self, finding: Finding) -> None:
        self._on_finding(finding)
        self.progress(self.tally)

    def run(self, start: Iterable[bytes] = ()) -> Tally:
        """Run files until the settings stop it; ``start`` are inputs of an earlier run, which come first."""
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
        """Run plans up to a number or a time; the steps take turns.

        The same seed generates the same plans. Raises StepError for a step without plans, or if no subject
        has one of the steps.
        """
        if lacking := [step for step in steps if step not in PLAN_KINDS]:
            raise StepError(f"no plans for step {', '.join(lacking)}; there are: {', '.join(PLAN_KINDS)}")
        usable = [step for step in steps if any(step in subject.plan_steps for subject in self._subjects)]
        if not usable:
            raise StepError(f"none of the implementations has a step of {', '.join(steps) or 'none'}")
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
                    self._plan(question, Examiner([subject], step, self.settings.profile))
            self.progress(tally)
        return tally

    def _plan(self, question: PlanQuestion, examiner: Examiner) -> None:
        with scratch(examiner.step):
            judged = question.run(examiner)
            self.tally.outcomes[f"{examiner.step}: {kind_of(judged.verdict)}"] += 1
            mistake = mistake_of(judged)
            if mistake is not None:
                self._recorder.record(examiner, question, mistake)

    def run_one(self, data: bytes, slots: Slots, file: File | None = None) -> bool:
        """Run a single input of an external engine; ``file`` is its tree if available.

        Returns True when the input was kept because its behaviour is new.
        """
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
        out = []
        for data in start:
            out.append(Sample(_base(data), data, slots.put(data)))
            if len(out) == count:
                return out
        while len(out) < count:
            file = self._grammar.input(self._pool)
            data = file.render()
            out.append(Sample(file, data, slots.put(data)))
        return out

    def _process(self, sample: Sample) -> None:
        tally = self.tally
        tally.execs += 1
        data, path = sample.data, sample.path
        answers = {(number, step): ask(data, path, step) for number, step, ask in self._steps}
        tally.outcomes[" / ".join([result.outcome for result in answers.values()])] += 1
        key = _kind(sample.file.faults, answers.values())
        alike = None if key is None else self._refused.get(key)
        if alike is not None and tally.execs % EXPLAIN_EVERY and self._is_unproved(data, answers):
            self._count(alike)
            return
        what = opinion(data, self.settings.profile, likely_valid=not sample.file.faults)
        if key is not None and what.header is None:
            self._refused[key] = what
        self._count(what)
        self._feedback(sample, what, answers)
        for (number, step), result in answers.items():
            mistake = what.mistake_in(result, self._subjects[number].lacks)
            if mistake is not None:
                examiner = Examiner([self._subjects[number]], step, self.settings.profile)
                self._recorder.record(examiner, what, mistake)
        if what.required == "open" and len(answers) > 1:
            self._compare_accepting(what, answers)

    def _is_unproved(self, data: bytes, answers: Mapping[tuple[int, str], StepResult]) -> bool:
        """Return whether the proving path cannot prove an input, using an existing answer if there is one."""
        if self._proving is not None:
            return answers[self._proving].outcome == "unsupported"
        return quick_header(data) is None

    def _compare_accepting(self, what: FileQuestion, answers: Mapping[tuple[int, str], StepResult]) -> None:
        accepted: dict[str, list[tuple[Subject, StepResult]]] = {}
        for (number, step), result in answers.items():
            if result.outcome == "accept":
                accepted.setdefault(step, []).append((self._subjects[number], result))
        for step, ((first, answer), *others) in accepted.items():
            for second, result in others:
                question = PairQuestion.of(what, first, second)
                mistake = question.compare(answer, result)
                if mistake is None:
                    continue
                both = Examiner([first, second], step, self.settings.profile)
                replaced = question.blame_on_valid_twin(mistake, both)
                told = [(both, question, mistake)] if replaced is None else replaced
                for examiner, about, wrong in told:
                    self._recorder.record(examiner, about, wrong)
                both.close()

    def _count(self, what: FileQuestion) -> None:
        stages = self.tally.stages
        if what.header is not None:
            stages["json"] += 1
            stages["schema"] += 1
            stages["accepted"] += 1
            return
        for rule in what.rules:
            self.tally.rules[rule] += 1
        stage = stage_of(what.codes)
        if stage:
            stages["json"] += 1
            stages["schema"] += stage > 1

    def _feedback(
        self, sample: Sample, what: FileQuestion, answers: Mapping[tuple[int, str], StepResult]
    ) -> None:
        """Keep the input as a base when its behaviour is new."""
        shape = _shape(sample.file) if not sample.file.faults or len(sample.file.faults) == 1 else 0
        key = (
            what.rules,
            *[(result.outcome, class_of(result.message)) for result in answers.values()],
        )
        new = key not in self._seen
        if new:
            self._seen.add(key)
            self.tally.tuples += 1
        context = (what.rules[:1], shape)
        if not new and context in self._seen:
            return
        self._seen.add(context)
        if not self.settings.feedback:
            return
        if len(sample.data) <= LARGEST_BASE and len(sample.file.faults) < MAX_FAULTS:
            if len(self._pool) < POOL:
                self._pool.append(sample.file)
            else:
                self._pool[self.tally.kept % POOL] = sample.file
            self.tally.kept += 1
            self._store(sample.data)


@contextlib.contextmanager
def scratch(step: str) -> Iterator[None]:
    """Create the temporary folders of a plan in memory, because removing one from a disk is slow.

    Files that a writer makes have no size limit, so they go to the disk.
    """
    before, where = tempfile.tempdir, None if step == "write" else folder_in_memory()
    if where is not None:
        tempfile.tempdir = str(where)
    try:
        yield
    finally:
        tempfile.tempdir = before


_NO_CLAIM = ("reject", "unsupported")
"""Outcomes that are right for any broken input."""


@lru_cache(MESSAGE_CACHE)
def class_of(message: str) -> str:
    return message_class(message)


def _kind(faults: tuple[str, ...], answers: Iterable[StepResult]) -> tuple[object, ...] | None:
    """Return a key for broken inputs that every subject refused, None for other inputs.

    Refusing a broken file is correct, and explaining the file takes most of the time of an input, so the
    campaign explains only the first input of each key, and later ones now and then. Inputs with one fault
    share a key when fault and wording are the same. With more faults the wording is enough: most pairs of
    faults occur only once, and they are not used as bases.
    """
    if not faults or faults == EARLIER:
        return None
    words: list[object] = [faults if len(faults) < MAX_FAULTS else MAX_FAULTS]
    for result in answers:
        if result.outcome not in _NO_CLAIM:
            return None
        words += (result.outcome, class_of(result.message))
    return tuple(words)


def _base(data: bytes) -> File:
    file = parse(data)
    file.faults = EARLIER
    return file


def _shape(file: File) -> int:
    """Return a rough measure of a file: number of members, size of data and padding."""
    members = getattr(file.root, "members", ())
    return min(len(members), 4) * 100 + min(len(file.data).bit_length(), 9) * 10 + min(len(file.padding), 9)


def stage_of(codes: Iterable[str]) -> int:
    """Return how far an input with these faults gets: 0 not past JSON, 1 past it, 2 past the schema too."""
    stage = 2
    for code in codes:
        if code.startswith(("FRM_", "HDR_NOT", "HDR_BAD", "HDR_TOO")):
            return 0
        if code.startswith(("ENT_", "DTY_BAD", "DTY_UNK", "SHP_BAD", "MET_", "OFF_BAD", "HDR_DUP")):
            stage = 1
    return stage
