"""Configuration of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from safetensors_conformance.implementations.environment import InstallError, prepare
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_reference.rules.book import ProfileName

from ..loop.subjects import FILE_STEPS, INNER
from ..plans import PLAN_KINDS

Engine = Literal["outcome", "hypothesis", "atheris"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
STEPS = (*FILE_STEPS, *PLAN_KINDS, *INNER)
"""All steps that ``--steps`` accepts."""


class RunError(Exception):
    """The run cannot be done; the text says why and what to do."""


PROVING_PATH = (
    "this engine runs only the proving path of the reference, in this process: unsupported means not "
    "proved; the other engines run the whole reference, in a worker"
)


@dataclass(frozen=True)
class FuzzConfig:
    """Configuration of a run.

    Attributes:
        impls: selectors.
        steps: steps to run; an implementation skips those it lacks.
        engine: source of the inputs.
        max_execs: number of inputs; None for no limit.
        seconds: time limit; None for no limit.
        profile: profile that decides disputed behaviour; None for undisputed musts only.
        limits: limits of each answer.
        corpus: folder of inputs to start from and to add new ones to.
        triage: file of known signatures; None for the one of this project.
        jobs: number of processes.
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
    def note(self) -> str:
        """Remark about an unusual interpretation of the options, empty for none."""
        asked = "reference" in self.impls and not {"prove", "check"}.issuperset(self.steps)
        return PROVING_PATH if asked and self.engine == "atheris" else ""

    @property
    def plan_steps(self) -> tuple[str, ...]:
        return tuple(step for step in self.steps if step in PLAN_KINDS)

    @property
    def families(self) -> int:
        """Number of groups that share the inputs: single files, plans, or both."""
        return bool(self.plan_steps) + (len(self.plan_steps) < len(self.steps))

    def targets(self) -> list[Target]:
        """Resolve the selectors, and install what is missing. Raises RunError."""
        if not self.steps:
            raise RunError(f"no step to run; there are {', '.join(STEPS)}")
        unknown = [step for step in self.steps if step not in STEPS]
        if unknown:
            raise RunError(f"no step {unknown[0]!r}; there are {', '.join(STEPS)}")
        try:
            found = [resolve(selector) for selector in dict.fromkeys(self.impls)]
            for target in found:
                prepare(target.environment)
        except (SelectorError, InstallError) as err:
            raise RunError(str(err)) from err
        return found

    def share(self, job: int) -> FuzzConfig:
        """Return the configuration of one of the processes: its own seed, its part of the inputs."""
        most = self.max_execs
        part = None if most is None else most // self.jobs + (job < most % self.jobs)
        return replace(self, seed=self.seed * 1000 + job, max_execs=part, jobs=1)
