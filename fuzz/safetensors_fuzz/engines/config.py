"""A run as it is asked for: whom, which steps, by which engine, for how long."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from safetensors_conformance.worker.worker import Limits
from safetensors_reference.rules.book import ProfileName

from ..loop.reference_subjects import INNER
from ..plans.campaign import ASKING

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

    @property
    def families(self) -> int:
        """How many campaigns share the inputs: of single files, of the steps that need more, or both."""
        beside = [step in ASKING for step in self.steps]
        return any(beside) + (not all(beside))

    def share(self, job: int) -> Order:
        """Return the part of one of the processes: another seed, its part of the inputs."""
        most = self.max_execs
        part = None if most is None else most // self.jobs + (job < most % self.jobs)
        return replace(self, seed=self.seed * 1000 + job, max_execs=part, jobs=1)
