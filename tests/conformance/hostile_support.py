"""Runs hostile readers over a few files with the trigger in the middle."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.run.session import CaseRunner, Session
from safetensors_conformance.verdict import CaseVerdict, result_row
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus import Case

from .support import TRIGGER

PID_FILE = "HOSTILE_PID_FILE"
"""Variable with the file in which a fake notes the process that it leaves behind."""
IDS = ("framing/no-bytes", "layout/two-dtypes", TRIGGER, "layout/hole-between-two", "dtype/scalar-of-f64")
"""A broken file, a valid one, the trigger, a broken file, a valid one."""


@dataclass
class Ran:
    """Result of a run: the step that was triggered, all verdicts, and how long it took."""

    trigger: StepResult
    verdicts: dict[str, str]
    detail: dict[str, str]
    seconds: float

    @property
    def neighbours(self) -> set[str]:
        return {verdict for case, verdict in self.verdicts.items() if case != TRIGGER}


def run(selector: str, cases: list[Case], *, seconds: float = 0.5, ahead: bool = True) -> Ran:
    began = time.monotonic()
    judged: list[CaseVerdict] = []
    limits = Limits(seconds, 256 << 20, Confinement(env=(PID_FILE,)))
    with Session(CaseRunner(resolve(selector), limits)) as session:
        session.start()
        if ahead:
            session.runner.plan(cases)
        judged += [session.judge(case) for case in cases]
    for verdict in judged:
        for step in verdict.steps:  # whatever was answered can be written down
            json.dumps(result_row(verdict, step, expected_failure=False), allow_nan=False)
    (trigger,) = (v.steps["read"].result for v in judged if v.case.id == TRIGGER)
    return Ran(
        trigger,
        {v.case.id: v.verdict for v in judged},
        {v.case.id: " | ".join(s.detail for s in v.steps.values()) for v in judged},
        time.monotonic() - began,
    )
