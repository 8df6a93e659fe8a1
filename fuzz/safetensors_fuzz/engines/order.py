"""A run as it is asked for: whom, which steps, by which engine, how long, in how many processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from safetensors_conformance.implementations.environment import InstallError, prepare
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_reference.rules.book import ProfileName

from ..loop.subjects import FILE_STEPS, INNER
from ..plans import ASKING

Engine = Literal["outcome", "hypothesis", "atheris"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
STEPS = (*FILE_STEPS, *ASKING, *INNER)
"""Everything that can be asked."""


class RunError(Exception):
    """The run cannot be done as asked; the text says why and what to do."""


PROVING_PATH = (
    "the reference is asked for its proving path alone, in this process: unsupported means not proved; "
    "the other engines ask for its whole reading, in a worker"
)


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
    def note(self) -> str:
        """What is asked otherwise than by these words, empty for nothing."""
        asked = "reference" in self.impls and not {"prove", "check"}.issuperset(self.steps)
        return PROVING_PATH if asked and self.engine == "atheris" else ""

    @property
    def plan_steps(self) -> tuple[str, ...]:
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
                prepare(target.environment)
        except (SelectorError, InstallError) as err:
            raise RunError(str(err)) from err
        return found

    def share(self, job: int) -> Order:
        """Return the part of one of the processes: another seed, its part of the inputs."""
        most = self.max_execs
        part = None if most is None else most // self.jobs + (job < most % self.jobs)
        return replace(self, seed=self.seed * 1000 + job, max_execs=part, jobs=1)
