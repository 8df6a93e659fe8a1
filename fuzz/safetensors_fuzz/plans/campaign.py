"""The campaign: plans made by chance, every implementation asked, wrong answers made small and kept."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from safetensors_conformance.implementations.selectors import Target
from safetensors_conformance.verdict.judge import StepVerdict
from safetensors_conformance.worker.outcome import Implementation
from safetensors_conformance.worker.worker import Limits, StartError, Worker, make_worker
from safetensors_corpus.judging.verdicts import fails, kind_of

from ..findings.finding import REPLAYS, Finding
from ..loop.attribution import unknown
from ..loop.subjects import told_apart
from .charge import charged
from .index.question import Indexes
from .naming import expected_line, got_line, signature, token
from .question import Asking, Plan, PlanError, Question
from .replay import answer, ask
from .slice.question import Slices
from .write.question import Writes

ENGINE = "asking"
ASKING: dict[str, Asking] = {kind.step: kind for kind in (Slices(), Writes(), Indexes())}
"""Step -> what is asked."""
SHRINK_TRIES = 400
SHRINK_SECONDS = 5.0


@dataclass
class AskTally:
    """What a campaign did; filled while it runs.

    Attributes:
        execs: plans that were asked, of each implementation that has the step.
        skipped: plans that make no sense or that no rule decides.
        seconds: time since the start.
        steps: step -> plans asked.
        verdicts: (selector, step, verdict without its option) -> answers.
        findings: signature -> finding.
        known: signature that was known already -> how often it came again.
        interrupted: whether Ctrl-C ended it.
    """

    execs: int = 0
    skipped: int = 0
    seconds: float = 0.0
    steps: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    known: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False


@dataclass
class _Asked:
    """An implementation that takes part; ``name`` is the one in signatures."""

    name: str
    target: Target
    worker: Worker
    who: Implementation


@dataclass
class _Campaign:
    """The settings of a campaign, and what the steps of its work share."""

    seed: int
    limits: Limits
    profile: str | None
    keep: Callable[[Finding], None]
    known: Callable[[str], bool]
    tally: AskTally
    scratch: Path
    number: int = 0

    def answer(self, one: _Asked, question: Question) -> StepVerdict:
        """Ask one implementation, with the input in a folder of its own."""
        self.number += 1
        folder = self.scratch / str(self.number)
        folder.mkdir()
        try:
            return answer(one.worker, one.who, question.case(folder), question.step, self.profile)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def look(self, one: _Asked, plan: Plan, question: Question) -> None:
        """Ask one implementation and keep what is wrong and new."""
        judged = self.answer(one, question)
        self.tally.verdicts[one.target.selector, question.step, kind_of(judged.verdict)] += 1
        # The type of an exception is a matter of the call and not of the plan; the corpus has its cases.
        if not fails(judged.verdict) or judged.verdict == "deviation:exception":
            return
        if self.is_old(one, question, judged):
            return
        plan, small, judged = self.shrunk(one, plan, question, judged)
        if small.subject != question.subject and self.is_old(one, small, judged):
            return
        found = self.replayed(one, self.finding(one, small, judged, question.size), judged)
        if found.replays == REPLAYS:
            cause = charged(ASKING[small.step], plan, small, judged, lambda asked: self.answer(one, asked))
        else:
            cause = unknown("the answer did not come again each time")
        found = replace(found, rules=cause.rules, cause=cause.words)
        self.tally.findings[found.signature] = found
        self.keep(found)

    def is_old(self, one: _Asked, question: Question, judged: StepVerdict) -> bool:
        """Tell whether nothing new can be learnt from an answer, and count a known one.

        Of several faults or choices one that is old is enough: the others come up without it.
        """
        for part in (question.subject, *sorted(question.parts - {question.subject})):
            name = signature(one.name, question, judged, part)
            if name in self.tally.findings:
                return True
            if name in self.tally.known or self.known(name):
                self.tally.known[name] += 1
                return True
        return False

    def shrunk(
        self, one: _Asked, plan: Plan, question: Question, judged: StepVerdict
    ) -> tuple[Plan, Question, StepVerdict]:
        """Return the simplest plan found that gets the same verdict and signature, its question and answer.

        Of several faults those may go that the answer has nothing to do with.
        """
        kind = ASKING[question.step]
        tries, deadline = 0, time.monotonic() + SHRINK_SECONDS
        better = True
        while better:
            better = False
            for other in kind.smaller(plan):
                if tries >= SHRINK_TRIES or time.monotonic() > deadline:
                    break
                try:
                    asked = kind.question(other)
                except PlanError:
                    continue
                tries += 1
                again = self.answer(one, asked)
                if again.verdict == judged.verdict and _alike(question, judged, asked, again):
                    plan, question, judged, better = other, asked, again, True
                    break
        return plan, question, judged

    def finding(self, one: _Asked, small: Question, judged: StepVerdict, size: int) -> Finding:
        """Return the finding, before it is asked again."""
        return Finding(
            step=small.step,
            verdict=judged.verdict,
            signature=signature(one.name, small, judged),
            rules=small.rules,
            codes=small.codes,
            expected=expected_line(small),
            got={one.target.selector: got_line(judged)},
            versions={one.target.selector: one.who.version},
            files=small.files,
            entry=small.entry,
            action=small.action,
            expectation=small.expectation,
            engine=ENGINE,
            seed=self.seed,
            execs=self.tally.execs,
            size_found=size,
        )

    def replayed(self, one: _Asked, found: Finding, judged: StepVerdict) -> Finding:
        """Ask three times in a fresh process and count the same answer."""
        wanted = judged.verdict, token(judged)
        same = 0
        for _ in range(REPLAYS):
            try:
                again = ask(one.target, found, self.limits, self.profile)
            except StartError:
                continue
            same += (again.verdict, token(again)) == wanted
        return replace(found, replays=same)


def ask_campaign(
    targets: Sequence[Target],
    steps: Sequence[str],
    *,
    seed: int,
    max_execs: int,
    seconds: float | None,
    limits: Limits,
    profile: str | None,
    keep: Callable[[Finding], None],
    progress: Callable[[AskTally], None],
    known: Callable[[str], bool],
    tally: AskTally | None = None,
) -> AskTally:
    """Ask until ``max_execs`` plans or ``seconds`` are used up, and return what was done.

    The same seed makes the same plans. Ctrl-C ends the campaign like the end of its time, and is noted in the
    tally.

    Args:
        targets: the implementations; each is asked the steps that it has.
        steps: of ``slice``, ``write`` and ``index``; they take turns.
        seed: of the plans.
        max_execs: plans to ask at most.
        seconds: time to use once all are started, about; None for no limit.
        limits: limits of one step.
        profile: profile that answers are judged by, None for what every profile demands.
        keep: takes each finding, once per signature, made small and asked again.
        progress: told after each plan.
        known: tells signatures that are not to be kept.
        tally: filled in place; None makes a new one.

    Raises:
        ValueError: a step that is not one of the three, or that none of the targets has.
        StartError: a target that cannot be started.
    """
    tally = AskTally() if tally is None else tally
    if unknown := [step for step in steps if step not in ASKING]:
        raise ValueError(f"no questions for step {', '.join(unknown)}; there are: {', '.join(ASKING)}")
    began = time.monotonic()
    workers: list[Worker] = []
    try:
        with tempfile.TemporaryDirectory(prefix="stc-fuzz-") as scratch:
            asked = []
            names = told_apart([t.plain() for t in targets], [t.selector for t in targets])
            for name, target in zip(names, targets, strict=True):
                workers.append(make_worker(target, limits, profile))
                asked.append(_Asked(name, target, workers[-1], workers[-1].start()))
            campaign = _Campaign(seed, limits, profile, keep, known, tally, Path(scratch))
            usable = [step for step in steps if any(step in one.who.steps for one in asked)]
            if not usable:
                raise ValueError(f"none of the implementations has a step of {', '.join(steps) or 'none'}")
            began = time.monotonic()  # starting takes as long as it takes
            for turn in itertools.count():
                tally.seconds = time.monotonic() - began
                if tally.execs >= max_execs or (seconds is not None and tally.seconds >= seconds):
                    break
                step = usable[turn % len(usable)]
                _turn(campaign, step, turn // len(usable), [one for one in asked if step in one.who.steps])
                progress(tally)
    except KeyboardInterrupt:
        tally.interrupted = True
    finally:
        tally.seconds = time.monotonic() - began
        for worker in workers:
            worker.close()
    return tally


def _alike(question: Question, judged: StepVerdict, other: Question, again: StepVerdict) -> bool:
    """Tell whether another question shows the same: the same subject, or some of its faults or choices.

    A wrong acceptance that reports something does not become one that reports nothing.
    """
    if token(judged) != token(again) or bool(judged.result.tensors) > bool(again.result.tensors):
        return False
    return other.parts <= question.parts


def plan_of(step: str, seed: int, number: int) -> Plan:
    """Return the plan of that number; each is made by itself, whatever came before."""
    return ASKING[step].plan(random.Random(f"{seed}/{step}/{number}"))  # noqa: S311 - reproducible on purpose


def _turn(campaign: _Campaign, step: str, number: int, asked: Sequence[_Asked]) -> None:
    """Ask one plan of everyone."""
    plan = plan_of(step, campaign.seed, number)
    try:
        question = ASKING[step].question(plan)
    except PlanError:
        campaign.tally.skipped += 1
        return
    campaign.tally.execs += 1
    campaign.tally.steps[step] += 1
    for one in asked:
        campaign.look(one, plan, question)
