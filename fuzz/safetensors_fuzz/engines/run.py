"""The configuration of a run, and a run of the outcome engine in one or more processes."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, get_args

from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve
from safetensors_conformance.worker.worker import Limits, StartError
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.source import read_whole
from safetensors_reports.known_failures import SHIPPED_TRIAGE, KnownError, load_triage

from ..finding import Finding
from ..loop.question import REFERENCE
from ..loop.subjects import FILE_STEPS, INNER, StepError, Subject, WorkerSubject, complete
from ..plans import PLAN_KINDS
from .campaign import Campaign, Settings, Tally

Engine = Literal["outcome", "atheris"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
STEPS = (*FILE_STEPS, *PLAN_KINDS, *INNER)
LARGEST = 256 << 20
SHUTDOWN_SECONDS = 15.0
REPORT_SECONDS = 0.25


class RunError(Exception):
    """The run is impossible. The message gives the reason and a remedy."""


@dataclass(frozen=True)
class FuzzConfig:
    """Configuration of a run."""

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
    def note(self) -> str:
        if self.engine != "atheris" or "reference" not in self.impls or set(self.steps) <= set(INNER):
            return ""
        return (
            "this engine runs only the proving path of the reference, in its own process; the outcome "
            "'unsupported' means that the path proved nothing; to run the whole reference in a worker, "
            "use the outcome engine"
        )

    @property
    def plan_steps(self) -> tuple[str, ...]:
        return tuple(step for step in self.steps if step in PLAN_KINDS)

    @property
    def families(self) -> int:
        """Number of groups (files and plans) that share the limit on inputs."""
        return bool(self.plan_steps) + (len(self.plan_steps) < len(self.steps))

    def targets(self) -> list[Target]:
        """Resolve the selectors and install missing implementations. Raises RunError."""
        if not self.steps:
            raise RunError(f"no steps to run; available steps: {', '.join(STEPS)}")
        unknown = [step for step in self.steps if step not in STEPS]
        if unknown:
            raise RunError(f"unknown step {unknown[0]!r}; available steps: {', '.join(STEPS)}")
        try:
            targets = [resolve(selector) for selector in dict.fromkeys(self.impls)]
            for target in targets:
                target.prepare()
        except (SelectorError, InstallError) as err:
            raise RunError(str(err)) from err
        return targets

    def fitted(self) -> FuzzConfig:
        """Return the configuration with at least one input for each job and group. Raises RunError."""
        if self.max_execs is None:
            return self
        if self.max_execs < self.families:
            raise RunError(
                f"{self.max_execs} input is too few: files and plans share the inputs, so give at least 2"
            )
        return replace(self, jobs=min(self.jobs, self.max_execs // self.families))

    def share(self, job: int) -> FuzzConfig:
        most = self.max_execs
        part = None if most is None else most // self.jobs + (job < most % self.jobs)
        return replace(self, seed=self.seed * 1000 + job, max_execs=part, jobs=1)


class Store:
    """A folder of inputs. The name of each file is derived from its digest."""

    def __init__(self, folder: Path | None) -> None:
        """Create the folder if necessary. If the path is None, nothing is stored. Raises RunError."""
        self.folder = folder
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as err:
                raise RunError(f"{folder}: {err.strerror or err}") from err

    def __iter__(self) -> Iterator[bytes]:
        for path in sorted(self.folder.glob("*.safetensors")) if self.folder is not None else ():
            try:
                yield read_whole(path, LARGEST)
            except OSError as err:
                raise RunError(str(err)) from err

    def put(self, data: bytes) -> None:
        if self.folder is None:
            return
        path = self.folder / f"{hashlib.sha256(data).hexdigest()[:16]}.safetensors"
        if path.exists():
            return
        try:
            # another job may store the same input at the same time
            temporary = path.with_suffix(f".{os.getpid()}.part")
            temporary.write_bytes(data)
            temporary.replace(path)
        except OSError as err:
            raise RunError(f"{path}: {err.strerror or err}") from err


@dataclass
class Run:
    """A run of the outcome engine. Its tally is valid even after Ctrl-C."""

    config: FuzzConfig
    keep: Callable[[Finding], None]
    """Called with the first finding of each signature."""
    progress: Callable[[Tally], None]
    tally: Tally
    _parts: dict[int, Tally] = field(default_factory=dict)
    _problems: list[str] = field(default_factory=list)

    def do(self) -> None:
        targets = self.config.targets()
        self.config = self.config.fitted()
        if self.config.jobs == 1:
            self.here(targets)
            return
        self._in_processes()
        if self._problems:
            raise RunError(self._problems[0])

    def here(self, targets: Sequence[Target]) -> None:
        """Execute the run in this process. Files come before plans. Raises RunError."""
        config = self.config
        subjects: list[Subject] = []
        try:
            steps = [step for step in config.steps if step not in INNER]
            for target in targets if steps else ():
                try:
                    subjects.append(WorkerSubject(target, steps, config.limits, config.profile))
                except StepError:
                    if not config.plan_steps:
                        raise
            complete(subjects, config.steps)
            files = any(subject.steps for subject in subjects)
            families = files + bool(config.plan_steps)
            seconds = None if config.seconds is None else config.seconds / families
            most = config.max_execs
            settings = Settings(
                seed=config.seed,
                max_execs=None if most is None else -(-most // families),
                seconds=seconds,
                profile=config.profile,
                known=known_signatures(config.triage, [subject.plain for subject in subjects]),
                engine=config.engine,
            )
            store = Store(config.corpus)
            campaign = Campaign(
                subjects, settings, keep=self.keep, progress=self.progress, store=store.put, tally=self.tally
            )
            if files:
                campaign.run(store)
            if config.plan_steps:
                campaign.plans(config.plan_steps, None if most is None else most // families, seconds)
        except (StartError, StepError) as err:
            raise RunError(str(err)) from err
        finally:
            for subject in subjects:
                subject.close()

    def _in_processes(self) -> None:
        context = multiprocessing.get_context("spawn")
        messages: Any = context.Queue()
        processes = [
            context.Process(target=_job, args=(self.config.share(job), job, messages))
            for job in range(self.config.jobs)
        ]
        for process in processes:
            process.start()
        try:
            self._listen(processes, messages)
        except KeyboardInterrupt:
            # Ctrl-C also interrupted the worker processes, but they still report their results.
            with contextlib.suppress(KeyboardInterrupt):
                self._listen(processes, messages, time.monotonic() + SHUTDOWN_SECONDS)
            raise
        finally:
            self.tally.sum_up(self._parts.values())
            for process in processes:
                if process.is_alive():
                    process.terminate()
                process.join(5)

    def _listen(self, processes: Sequence[BaseProcess], messages: Any, deadline: float | None = None) -> None:
        done: set[int] = set()
        while len(done) < len(processes) and (deadline is None or time.monotonic() < deadline):
            try:
                kind, job, content = messages.get(timeout=0.2)
            except queue.Empty:
                dead = {job for job, process in enumerate(processes) if not process.is_alive()} - done
                if dead and messages.empty():
                    self._problems += [
                        f"process {job} died with status {processes[job].exitcode}" for job in dead
                    ]
                    done |= dead
                continue
            if kind == "finding":
                if content.signature not in self.tally.findings:
                    self.tally.findings[content.signature] = content
                    self.keep(content)
            elif kind == "problem":
                self._problems.append(content)
            else:
                self._parts[job] = content
                done |= {job} if kind == "done" else set()
                if deadline is None:
                    self.tally.sum_up(self._parts.values())
                    self.progress(self.tally)


def _job(config: FuzzConfig, job: int, messages: Any) -> None:
    tally = Tally()
    last = 0.0

    def report(now: Tally) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_SECONDS:
            last = time.monotonic()
            messages.put(("progress", job, replace(now, findings={})))

    try:
        with contextlib.suppress(KeyboardInterrupt):
            Run(config, lambda f: messages.put(("finding", job, f)), report, tally).here(config.targets())
    except Exception as err:  # the parent process prints the message
        text = str(err) if isinstance(err, RunError) else f"{type(err).__name__}: {err}"
        messages.put(("problem", job, text))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the final report must reach the parent process
        messages.put(("done", job, replace(tally, findings={})))


def known_signatures(triage: Path | None, names: Sequence[str]) -> Callable[[str], bool]:
    """Return a predicate that is true for known signatures unless they are overdue. Raises RunError."""
    try:
        known = load_triage(triage or SHIPPED_TRIAGE, sorted({*names, REFERENCE}))
    except KnownError as err:
        raise RunError(str(err)) from err
    today = dt.datetime.now(tz=dt.UTC).date()
    return lambda signature: known.is_known(signature, today)
