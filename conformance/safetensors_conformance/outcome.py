"""Outcome of one step on one file: the answer of an implementation, not yet judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from safetensors_corpus import Case, steps
from safetensors_corpus.judging.answer import OUTCOMES, UNSAFE, Answer, Outcome
from safetensors_corpus.judging.content import bounded, size_of

STEPS = tuple(steps.STEPS)


class Check(NamedTuple):
    """Result of one promise of the step ``device``; ``name`` is a key of ``device_checks.CHECKS``.

    ``status`` is ``pass``, ``fail``, or ``unknown`` if this device or reader does not reveal it.
    """

    name: str
    status: str
    message: str = ""


class RetryReason(Enum):
    """Why a result counts only if a fresh process repeats it."""

    PROTOCOL_BROKEN = "an earlier request to the same process may have caused a broken conversation"
    MACHINE_BUSY = "the machine was too busy to give the implementation its time"
    ENDED_WHILE_IDLE = "the process ended between this answer and the next"
    PROBE_LIMIT = "the answer exceeded the probe limits, which are below the limits of the run"


@dataclass(frozen=True)
class StepResult(Answer):
    """The outcome of one step, with measurements of the harness; None where not measured.

    The worker reports ``cpu_ms``. The harness measures ``wall_ms`` and ``spent_ms``, the CPU time over all
    processes of the worker: at most the wall time, so that parallel work is not penalised. ``peak_bytes`` is
    growth of resident memory; ``read_bytes`` leaves out memory maps. ``changed`` describes how it changed its
    input file. ``cut`` has the parts of too large content besides tensors and metadata (see ``bounded``).
    """

    retry: RetryReason | None = None
    checks: tuple[Check, ...] = ()
    wall_ms: float = 0.0
    cpu_ms: float | None = None
    spent_ms: float | None = None
    peak_bytes: int | None = None
    read_bytes: int | None = None
    stderr: str = ""
    noise: str = ""
    changed: str = ""
    cut: Mapping[str, Any] | None = None

    @property
    def content(self) -> dict[str, Any] | None:
        """The content of an accepting answer as in a run record; None if the answer has none."""
        told = super().content
        return told if told is None or self.cut is None else {**told, **self.cut}


MAX_CONTENT = 192 << 10
"""Largest content in bytes of JSON to keep whole; every valid file of the corpus has less."""
MAX_TOTAL = 64 << 20
"""Most bytes of content that one run keeps whole; the whole corpus needs a tenth of it."""
KEPT_CONTENT = 8 << 10
"""Approximate bytes to keep of a content that is too large."""


class KeptContent:
    """Limits how much reported content of one implementation a run keeps."""

    def __init__(self) -> None:
        self._total = 0.0

    def kept(self, result: StepResult) -> StepResult:
        content = result.content
        if content is None or result.cut is not None:
            return result
        size = size_of(content)
        if size <= KEPT_CONTENT or size <= min(MAX_CONTENT, MAX_TOTAL - self._total):
            self._total += size
            return result
        cut = bounded(content, KEPT_CONTENT)
        tensors, metadata = cut.pop("tensors", None), cut.pop("metadata", None)
        return replace(result, tensors=tensors, metadata=metadata, cut=cut)


@dataclass(frozen=True)
class Implementation:
    """Identity of the implementation under test, its steps, and the features that it lacks.

    ``steps`` includes ``device`` only if a device was requested; ``loads`` is true if it has that step at
    all. ``areas`` are the corpus areas that it claims to judge, empty for all; ``verdict_only`` is true if it
    reports only whether a file is valid.
    """

    name: str
    version: str
    language: str
    steps: tuple[str, ...]
    lacks: frozenset[str] = frozenset()
    selector: str = ""
    areas: frozenset[str] = frozenset()
    verdict_only: bool = False
    loads: bool = False

    def steps_of(self, case: Case) -> list[str]:
        """Return the steps of a case to run: those that it has, if the case is within its claims."""
        steps = case.steps_for(self.steps, self.areas)
        if "device" in self.steps and loadable(case) and case.is_claimed(self.areas):
            steps.append("device")
        return steps

    @property
    def label(self) -> str:
        return f"{self.selector} {self.version}" if self.version != "unknown" else self.selector


def loadable(case: Case) -> bool:
    return case.kind == "read" and "read" in case.steps and case.action is None


__all__ = [
    "OUTCOMES",
    "STEPS",
    "UNSAFE",
    "Answer",
    "Check",
    "Implementation",
    "Outcome",
    "RetryReason",
    "StepResult",
    "loadable",
]
