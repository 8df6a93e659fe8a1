"""Configuration of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.selectors import SelectorError, Target, resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_reference.rules.book import ProfileName

from ..loop.subjects import FILE_STEPS, INNER
from ..plans import PLAN_KINDS

Engine = Literal["outcome", "atheris"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
STEPS = (*FILE_STEPS, *PLAN_KINDS, *INNER)


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

    def share(self, job: int) -> FuzzConfig:
        most = self.max_execs
        part = None if most is None else most // self.jobs + (job < most % self.jobs)
        return replace(self, seed=self.seed * 1000 + job, max_execs=part, jobs=1)
