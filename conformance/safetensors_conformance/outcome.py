"""The outcome of one step on one file: the answer of an implementation, before it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, Self

from safetensors_corpus import Case, steps
from safetensors_corpus.judging.answer import Answer
from safetensors_corpus.judging.content import bounded, size_of

STEPS = tuple(steps.STEPS)


class Check(NamedTuple):
    """Result of one device check: ``pass``, ``fail``, or ``unknown`` if it cannot be observed here."""

    name: str
    status: str
    message: str = ""


class RetryReason(Enum):
    """Why a result counts only if a fresh process repeats it."""

    PROTOCOL_BROKEN = "an earlier request to the same process may have broken the conversation"
    MACHINE_BUSY = "the machine was too busy to give the implementation enough CPU time"
    ENDED_WHILE_IDLE = "the process ended between this answer and the next"
    ADDRESS_SPACE = "a program that only reserves memory may have reached the limit of its address space"
    PROBE_LIMIT = "the answer exceeded the probe limits, which are below the limits of the run"


@dataclass(frozen=True)
class StepResult(Answer):
    """The outcome of one step, with measurements by the harness. Values that were not measured are None.

    The worker reports ``cpu_ms``. ``spent_ms`` is the CPU time of all its processes, up to the wall time.
    ``peak_bytes`` is the growth of resident memory. ``read_bytes`` does not include memory-mapped reads.
    If the content was too large, ``cut`` contains the part of it that was kept, except tensors and metadata.
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
        """The content of an accepting answer in the format of run records, or None if there is none."""
        if self.outcome != "accept" or self.tensors is None:
            return None
        metadata = {"metadata": self.metadata} if self.has_metadata else {}
        return {"tensors": self.tensors, **metadata, **(self.cut or {})}

    def reworded(self, write: Callable[[str], str]) -> Self:
        """Return the result with ``write`` applied to all texts of the implementation."""
        return replace(
            self,
            message=write(self.message),
            stderr=write(self.stderr),
            noise=write(self.noise),
            checks=tuple(check._replace(message=write(check.message)) for check in self.checks),
        )


MAX_CONTENT = 192 << 10
"""Largest content to keep in full, in bytes of JSON. No valid file in the corpus has as much content."""
MAX_TOTAL = 64 << 20
"""How many bytes of content one run keeps in full. The whole corpus needs a tenth of this."""
KEPT_CONTENT = 8 << 10
"""Approximate number of bytes to keep of content that is too large."""


class KeptContent:
    """Limits how much of an implementation's reported content a run keeps."""

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

    ``steps`` includes ``device`` only if a device was requested; ``loads`` is true if the implementation has
    that step. ``areas`` are the corpus areas that it claims to judge, or empty if it claims all of them.
    ``verdict_only`` is true if it reports only whether a file is valid.
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
        """Return the steps of a case that the implementation has, if it claims the area of the case."""
        steps = case.steps_for(self.steps, self.areas)
        loadable = case.kind == "read" and "read" in case.steps and case.action is None
        if loadable and "device" in self.steps and case.is_claimed(self.areas):
            steps.append("device")
        return steps

    @property
    def label(self) -> str:
        return f"{self.selector} {self.version}" if self.version != "unknown" else self.selector
