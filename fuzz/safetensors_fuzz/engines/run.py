"""Running an engine as asked: who is asked what, for how long, in how many processes."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from safetensors_conformance.differential.triage import TriageError, load_triage, shipped
from safetensors_conformance.implementations.environment import InstallError, prepare
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve
from safetensors_conformance.worker.worker import StartError

from ..findings.finding import Finding, bare
from ..loop.campaign import Campaign
from ..loop.recorder import REFERENCE, Settings, Tally
from ..loop.reference_subjects import CheckSubject, ProveSubject
from ..loop.store import Store, StoreError
from ..loop.subjects import Slots, Subject, WorkerSubject, told_apart
from ..plans.campaign import ASKING, AskTally, ask_campaign
from .config import FILE_STEPS, STEPS, Order
from .processes import RunError, in_processes


def targets_of(order: Order) -> list[Target]:
    """Return what is to be asked, installed where need be. Raises RunError."""
    if not order.steps:
        raise RunError(f"no step to ask; there are {', '.join(STEPS)}")
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
    if order.max_execs is not None:
        if order.max_execs < order.families:
            raise RunError(
                f"{order.max_execs} input: single files and other steps take turns; give 2 at least"
            )
        order = replace(order, jobs=min(order.jobs, order.max_execs // order.families))
    if order.engine == "atheris":
        _with_atheris(order, found, keep, progress, tally)
    elif order.jobs > 1:
        problems = in_processes(work, [order.share(job) for job in range(order.jobs)], keep, progress, tally)
        if problems:
            raise RunError(problems[0])
    else:
        _here(order, found, keep, progress, tally)


def _with_atheris(
    order: Order,
    targets: Sequence[Target],
    keep: Callable[[Finding], None],
    progress: Callable[[Tally], None],
    tally: Tally,
) -> None:
    """Do the run with libFuzzer, which lives in processes of its own. Raises RunError."""
    from .atheris.engine import run_atheris  # atheris is not needed by the other engines
    from .atheris.result import AtherisResult, TargetError

    beside = [step for step in order.steps if step in ASKING]
    if beside:
        raise RunError(f"the engine atheris makes single files, and cannot ask for {beside[0]}")
    if order.limits.confinement.sandbox is not None:
        raise RunError("the engine atheris imports what it tests, which no sandbox is around; take another")
    known = known_signatures(order.triage, [target.plain() for target in targets])

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
            env=order.limits.confinement.env,
            progress=take,
        )
    except TargetError as err:
        raise RunError(str(err)) from err
    take(result)
    for finding in result.findings:
        if known(bare(finding.signature)) or known(finding.signature):
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
    seconds = None if order.seconds is None else order.seconds / families
    most = order.max_execs
    of_files = None if most is None else -(-most // families)
    try:
        if subjects:
            known = known_signatures(order.triage, [subject.plain for subject in subjects])
            part = replace(order, max_execs=of_files, seconds=seconds)
            _files(part, subjects, known, keep, progress, tally)
    finally:
        for subject in subjects:
            subject.close()
    if asked:
        names = told_apart([t.plain() for t in targets], [t.selector for t in targets])
        known = known_signatures(order.triage, names)
        rest = None if most is None else most // families
        part = replace(order, max_execs=rest, seconds=seconds)
        _asking(part, targets, asked, known, keep, progress, tally)


def _subjects(order: Order, targets: Sequence[Target], *, lone: bool) -> list[Subject]:
    """Start everybody who is asked about single files. Raises RunError."""
    subjects: list[Subject] = []
    steps = [step for step in order.steps if step in FILE_STEPS]
    try:
        for target in targets if steps else ():
            with contextlib.nullcontext() if lone else contextlib.suppress(ValueError):
                subjects.append(WorkerSubject(target, steps, order.limits, order.profile))
    except (StartError, ValueError) as err:
        for subject in subjects:
            subject.close()
        raise RunError(str(err)) from err
    plain = told_apart([subject.plain for subject in subjects], [subject.name for subject in subjects])
    for subject, name in zip(subjects, plain, strict=True):
        subject.plain = name
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
        from .hypothesis import run_hypothesis
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
