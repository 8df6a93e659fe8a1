"""Running an engine as asked: who is asked what, for how long, in how many processes."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from safetensors_conformance.implementations.environment import InstallError
from safetensors_conformance.implementations.prepare import prepare
from safetensors_conformance.selectors import SelectorError, Target, resolve
from safetensors_conformance.triage import TriageError, load_triage, shipped
from safetensors_conformance.worker import Limits, StartError
from safetensors_reference.rules import ProfileName

from .asking.run import ASKING, AskTally, ask_campaign
from .campaign import Campaign
from .finding import Finding
from .inner import INNER, CheckSubject, ProveSubject
from .jobs import RunError, in_processes
from .recorder import REFERENCE, Settings, Tally
from .store import Store, StoreError
from .subjects import Slots, Subject, WorkerSubject

Engine = Literal["outcome", "hypothesis", "atheris"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
FILE_STEPS = ("open", "read")
STEPS = (*FILE_STEPS, *ASKING, *INNER)
"""Everything that can be asked."""


@dataclass(frozen=True)
class Order:
    """A run as it was asked for.

    Attributes:
        impls: selectors.
        steps: steps asked of each, as far as it has them.
        engine: where inputs come from.
        seed: the same seed gives the same inputs.
        max_execs: stop after so many inputs; None for no end.
        seconds: stop after so much time; None for no end.
        profile: whose options are demanded; None for undisputed musts only.
        limits: of each answer.
        corpus: folder of inputs to start from and to keep new ones in.
        triage: file of known signatures; None for the one of this project.
        jobs: processes.
    """

    impls: tuple[str, ...]
    steps: tuple[str, ...] = ("read",)
    engine: Engine = "outcome"
    seed: int = 1
    max_execs: int | None = None
    seconds: float | None = None
    profile: ProfileName | None = None
    limits: Limits = field(default_factory=Limits)
    corpus: Path | None = None
    triage: Path | None = None
    jobs: int = 1

    def share(self, job: int) -> Order:
        """Return the part of one of the processes: another seed, its part of the inputs."""
        most = self.max_execs
        part = None if most is None else most // self.jobs + (job < most % self.jobs)
        return replace(self, seed=self.seed * 1000 + job, max_execs=part, jobs=1)


def targets_of(order: Order) -> list[Target]:
    """Return what is to be asked, installed where need be. Raises RunError."""
    unknown = [step for step in order.steps if step not in STEPS]
    if unknown:
        raise RunError(f"no step {unknown[0]!r}; there are {', '.join(STEPS)}")
    try:
        found = [resolve(selector) for selector in dict.fromkeys(order.impls)]
        for target in found:
            prepare(target)
    except (SelectorError, InstallError) as err:
        raise RunError(str(err)) from err
    return found


def run(
    order: Order, keep: Callable[[Finding], None], progress: Callable[[Tally], None], tally: Tally
) -> None:
    """Do the run; what it found is in ``tally``, also after Ctrl-C. Raises RunError."""
    found = targets_of(order)
    if order.engine == "atheris":
        _with_atheris(order, keep, progress, tally)
    elif order.jobs > 1:
        problems = in_processes(work, [order.share(job) for job in range(order.jobs)], keep, progress, tally)
        if problems:
            raise RunError(problems[0])
    else:
        _here(order, found, keep, progress, tally)


def _with_atheris(
    order: Order, keep: Callable[[Finding], None], progress: Callable[[Tally], None], tally: Tally
) -> None:
    """Do the run with libFuzzer, which lives in processes of its own. Raises RunError."""
    from .atheris_engine import run_atheris  # atheris is not needed by the other engines
    from .atheris_result import AtherisResult, TargetError

    beside = [step for step in order.steps if step in ASKING]
    if beside:
        raise RunError(f"the engine atheris makes single files, and cannot ask for {beside[0]}")
    known = known_signatures(order.triage, [selector.partition("==")[0] for selector in order.impls])

    def take(result: AtherisResult) -> None:
        tally.execs, tally.seconds, tally.tuples = result.execs, result.seconds, result.tuples
        tally.stages, tally.rules, tally.outcomes = result.stages, result.rules, result.outcomes
        tally.unstable = result.unstable
        progress(tally)

    try:
        result = run_atheris(
            order.impls,
            steps=order.steps,
            profile=order.profile,
            seed=order.seed,
            max_execs=order.max_execs,
            seconds=order.seconds,
            corpus=order.corpus,
            jobs=order.jobs,
            progress=take,
        )
    except TargetError as err:
        raise RunError(str(err)) from err
    take(result)
    for finding in result.findings:
        if known(finding.signature.rpartition(" [")[0]) or known(finding.signature):
            tally.known[finding.signature] += 1
        else:
            tally.findings[finding.signature] = finding
            keep(finding)
    for death in result.deaths:
        tally.unstable[f"a target died with status {death.status}: {death.words[-200:].strip()}"] = 0
    if result.interrupted:
        raise KeyboardInterrupt


def work(
    order: Order, keep: Callable[[Finding], None], progress: Callable[[Tally], None], tally: Tally
) -> None:
    """Do the part of a run that is done in one process. Raises RunError."""
    _here(order, targets_of(order), keep, progress, tally)


def _here(
    order: Order,
    targets: Sequence[Target],
    keep: Callable[[Finding], None],
    progress: Callable[[Tally], None],
    tally: Tally,
) -> None:
    """Do the run in this process: first the engine for single files, then the steps that need more."""
    asked = tuple(step for step in order.steps if step in ASKING)
    subjects = _subjects(order, targets, lone=not asked)
    families = bool(subjects) + bool(asked)
    part = replace(
        order,
        max_execs=None if order.max_execs is None else max(order.max_execs // families, 1),
        seconds=None if order.seconds is None else order.seconds / families,
    )
    try:
        names = [subject.plain for subject in subjects] or [t.selector for t in targets]
        known = known_signatures(order.triage, names)
        if subjects:
            _files(part, subjects, known, keep, progress, tally)
    finally:
        for subject in subjects:
            subject.close()
    if asked:
        _asking(part, targets, asked, known, keep, progress, tally)


def _subjects(order: Order, targets: Sequence[Target], *, lone: bool) -> list[Subject]:
    """Start everybody who is asked about single files. Raises RunError."""
    subjects: list[Subject] = []
    steps = [step for step in order.steps if step in FILE_STEPS]
    try:
        for target in targets if steps else ():
            with contextlib.ExitStack() if lone else contextlib.suppress(ValueError):
                subjects.append(WorkerSubject(target, steps, order.limits, order.profile))
    except (StartError, ValueError) as err:
        for subject in subjects:
            subject.close()
        raise RunError(str(err)) from err
    if "prove" in order.steps:
        subjects.append(ProveSubject())
    if "check" in order.steps:
        subjects.append(CheckSubject())
    return subjects


def known_signatures(triage: Path | None, names: Sequence[str]) -> Callable[[str], bool]:
    """Return what says of a signature whether it is known and not overdue. Raises RunError."""
    try:
        entries = load_triage(triage or shipped(), sorted({*names, REFERENCE})).entries
    except TriageError as err:
        raise RunError(str(err)) from err
    today = dt.datetime.now(tz=dt.UTC).date()
    valid = [entry for entry in entries if entry.standing(today).status == "known"]
    return lambda signature: any(entry.matches(signature) for entry in valid)


def _files(
    order: Order,
    subjects: Sequence[Subject],
    known: Callable[[str], bool],
    keep: Callable[[Finding], None],
    progress: Callable[[Tally], None],
    tally: Tally,
) -> None:
    settings = Settings(
        seed=order.seed,
        max_execs=order.max_execs,
        seconds=order.seconds,
        profile=order.profile,
        known=known,
        engine=order.engine,
    )
    try:
        store = Store(order.corpus)
        campaign = Campaign(subjects, settings, keep=keep, progress=progress, store=store.put, tally=tally)
        if order.engine == "hypothesis":
            run_hypothesis = _hypothesis()
            with Slots(3) as slots:
                run_hypothesis(campaign, settings, slots, progress)
        else:
            campaign.run(store)
    except (StartError, StoreError) as err:
        raise RunError(str(err)) from err


def _hypothesis() -> Callable[[Campaign, Settings, Slots, Callable[[Tally], None]], Tally]:
    """Return the engine, which takes half a second to import. Raises RunError when hypothesis is missing."""
    try:
        from .hypothesis_engine import run_hypothesis
    except ModuleNotFoundError as err:
        text = "the engine hypothesis needs the extra: pip install 'safetensors-conformance[fuzz]'"
        raise RunError(text) from err
    return run_hypothesis


def _asking(
    order: Order,
    targets: Sequence[Target],
    steps: Sequence[str],
    known: Callable[[str], bool],
    keep: Callable[[Finding], None],
    progress: Callable[[Tally], None],
    tally: Tally,
) -> None:
    """Ask for slices, written files and indexes."""
    before = replace(tally)

    def show(now: AskTally) -> None:
        tally.execs = before.execs + now.execs
        tally.seconds = before.seconds + now.seconds
        progress(tally)

    def found(finding: Finding) -> None:
        tally.findings[finding.signature] = finding
        keep(finding)

    asked = AskTally()
    try:
        ask_campaign(
            targets,
            steps,
            seed=order.seed,
            max_execs=order.max_execs or sys.maxsize,
            seconds=order.seconds,
            limits=order.limits,
            profile=order.profile,
            keep=found,
            progress=show,
            known=known,
            tally=asked,
        )
    except (StartError, ValueError) as err:
        raise RunError(str(err)) from err
    finally:
        show(asked)
        tally.known.update(asked.known)
        for (_, step, verdict), count in asked.verdicts.items():
            tally.outcomes[f"{step}: {verdict}"] += count
    if asked.interrupted:
        raise KeyboardInterrupt
