"""A run as it is asked for, and done: whom, which steps, by which engine, how long, in how many processes."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from safetensors_conformance.differential.triage import TriageError, load_triage, shipped
from safetensors_conformance.implementations.environment import InstallError, prepare
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve
from safetensors_conformance.worker.worker import Limits, StartError
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.source import read_whole

from ..findings.finding import Finding, bare
from ..loop.campaign import Campaign
from ..loop.expectation import REFERENCE
from ..loop.recorder import Settings, Tally
from ..loop.reference_subjects import INNER, CheckSubject, ProveSubject
from ..loop.subjects import FILE_STEPS, Slots, StepError, Subject, WorkerSubject, told_apart
from ..plans import ASKING
from .processes import Processes, RunError

LARGEST = 256 << 20
"""Most bytes of an input that is read."""


class StoreError(Exception):
    """The folder cannot be used; the text names it and says why."""


class Store:
    """A folder of inputs, each under the first digits of its digest."""

    def __init__(self, folder: Path | None) -> None:
        """``folder`` is made when it is not there; None keeps nothing. Raises StoreError."""
        self.folder = folder
        self.written = 0
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as err:
                raise StoreError(f"{folder}: {err.strerror or err}") from err

    def __iter__(self) -> Iterator[bytes]:
        """Yield the inputs in the order of their names, which is the same everywhere. Raises StoreError."""
        for path in sorted(self.folder.glob("*.safetensors")) if self.folder is not None else ():
            try:
                yield read_whole(path, LARGEST)
            except OSError as err:
                raise StoreError(str(err)) from err

    def put(self, data: bytes) -> None:
        """Keep an input. Raises StoreError."""
        if self.folder is None:
            return
        path = self.folder / f"{hashlib.sha256(data).hexdigest()[:16]}.safetensors"
        if path.exists():
            return
        try:
            temporary = path.with_suffix(".part")
            temporary.write_bytes(data)
            temporary.replace(path)
        except OSError as err:
            raise StoreError(f"{path}: {err.strerror or err}") from err
        self.written += 1


Engine = Literal["outcome", "hypothesis", "atheris"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
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

    @property
    def plan_steps(self) -> tuple[str, ...]:
        """The steps that are asked by plans."""
        return tuple(step for step in self.steps if step in ASKING)

    @property
    def families(self) -> int:
        """How many share the inputs: single files, the steps that need more, or both."""
        return bool(self.plan_steps) + (len(self.plan_steps) < len(self.steps))

    def targets(self) -> list[Target]:
        """Return what is to be asked, installed where need be. Raises RunError."""
        if not self.steps:
            raise RunError(f"no step to ask; there are {', '.join(STEPS)}")
        unknown = [step for step in self.steps if step not in STEPS]
        if unknown:
            raise RunError(f"no step {unknown[0]!r}; there are {', '.join(STEPS)}")
        try:
            found = [resolve(selector) for selector in dict.fromkeys(self.impls)]
            for target in found:
                prepare(target)
        except (SelectorError, InstallError) as err:
            raise RunError(str(err)) from err
        return found

    def share(self, job: int) -> Order:
        """Return the part of one of the processes: another seed, its part of the inputs."""
        most = self.max_execs
        part = None if most is None else most // self.jobs + (job < most % self.jobs)
        return replace(self, seed=self.seed * 1000 + job, max_execs=part, jobs=1)


@dataclass
class Run:
    """A run of an order.

    Attributes:
        order: what is asked for.
        keep: takes each finding.
        progress: told the counts now and then.
        tally: what was done, also after Ctrl-C.
    """

    order: Order
    keep: Callable[[Finding], None]
    progress: Callable[[Tally], None]
    tally: Tally

    def do(self) -> None:
        """Do it. Raises RunError."""
        order, targets = self.order, self.order.targets()
        if order.max_execs is not None:
            if order.max_execs < order.families:
                raise RunError(
                    f"{order.max_execs} input: single files and other steps take turns; give 2 at least"
                )
            self.order = order = replace(order, jobs=min(order.jobs, order.max_execs // order.families))
        if order.engine == "atheris":
            self._with_atheris(targets)
        elif order.jobs > 1:
            orders = [order.share(job) for job in range(order.jobs)]
            problems = Processes(work, self.keep, self.progress, self.tally).do(orders)
            if problems:
                raise RunError(problems[0])
        else:
            self.here(targets)

    def here(self, targets: Sequence[Target]) -> None:
        """Do the run in this process: first single files, then the steps that need more. Raises RunError."""
        order = self.order
        subjects: list[Subject] = []
        try:
            self._start(targets, subjects)
            files = any(subject.steps for subject in subjects)
            families = files + bool(order.plan_steps)
            seconds = None if order.seconds is None else order.seconds / families
            most = order.max_execs
            settings = Settings(
                seed=order.seed,
                max_execs=None if most is None else -(-most // families),
                seconds=seconds,
                profile=order.profile,
                known=known_signatures(order.triage, [subject.plain for subject in subjects]),
                engine=order.engine,
            )
            store = Store(order.corpus)
            campaign = Campaign(
                subjects, settings, keep=self.keep, progress=self.progress, store=store.put, tally=self.tally
            )
            if files and order.engine == "hypothesis":
                run_hypothesis = _hypothesis()
                with Slots(3) as slots:
                    run_hypothesis(campaign, settings, slots, self.progress)
            elif files:
                campaign.run(store)
            if order.plan_steps:
                campaign.plans(order.plan_steps, None if most is None else most // families, seconds)
        except (StartError, StoreError, StepError) as err:
            raise RunError(str(err)) from err
        finally:
            for subject in subjects:
                subject.close()

    def _start(self, targets: Sequence[Target], subjects: list[Subject]) -> None:
        """Start everybody who is asked. Raises StartError, and StepError for one without any of the steps."""
        order = self.order
        steps = [step for step in order.steps if step not in INNER]
        for target in targets if steps else ():
            try:
                subjects.append(WorkerSubject(target, steps, order.limits, order.profile))
            except StepError:
                if not order.plan_steps:
                    raise
        plain = told_apart([subject.plain for subject in subjects], [subject.name for subject in subjects])
        for subject, name in zip(subjects, plain, strict=True):
            subject.plain = name
        if "prove" in order.steps:
            subjects.append(ProveSubject())
        if "check" in order.steps:
            subjects.append(CheckSubject())

    def _with_atheris(self, targets: Sequence[Target]) -> None:
        """Do the run with libFuzzer, which lives in processes of its own. Raises RunError."""
        # atheris is not needed by the other engines.
        from .atheris.engine import AtherisResult, TargetError, run_atheris

        order, tally = self.order, self.tally
        if order.plan_steps:
            raise RunError(f"the engine atheris makes single files, and cannot ask for {order.plan_steps[0]}")
        if order.limits.confinement.sandbox is not None:
            raise RunError(
                "the engine atheris imports what it tests, which no sandbox is around; take another"
            )
        known = known_signatures(order.triage, [target.plain() for target in targets])

        def take(result: AtherisResult) -> None:
            tally.execs, tally.seconds, tally.tuples = result.execs, result.seconds, result.tuples
            tally.stages, tally.rules, tally.outcomes = result.stages, result.rules, result.outcomes
            tally.unstable = result.unstable
            self.progress(tally)

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
                self.keep(finding)
        for death in result.deaths:
            tally.unstable[f"a target died with status {death.status}: {death.words[-200:].strip()}"] = 0
        if result.interrupted:
            raise KeyboardInterrupt


def work(
    order: Order, keep: Callable[[Finding], None], progress: Callable[[Tally], None], tally: Tally
) -> None:
    """Do the part of a run that is done in one process. Raises RunError."""
    Run(order, keep, progress, tally).here(order.targets())


def known_signatures(triage: Path | None, names: Sequence[str]) -> Callable[[str], bool]:
    """Return what says of a signature whether it is known and not overdue. Raises RunError."""
    try:
        entries = load_triage(triage or shipped(), sorted({*names, REFERENCE})).entries
    except TriageError as err:
        raise RunError(str(err)) from err
    today = dt.datetime.now(tz=dt.UTC).date()
    valid = [entry for entry in entries if entry.standing(today).status == "known"]
    return lambda signature: any(entry.matches(signature) for entry in valid)


def _hypothesis() -> Callable[[Campaign, Settings, Slots, Callable[[Tally], None]], Tally]:
    """Return the engine, which takes half a second to import. Raises RunError when hypothesis is missing."""
    try:
        from .hypothesis import run_hypothesis
    except ModuleNotFoundError as err:
        text = "the engine hypothesis needs the extra: pip install 'safetensors-conformance[fuzz]'"
        raise RunError(text) from err
    return run_hypothesis
