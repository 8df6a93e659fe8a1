"""Outcome of one step on one file: the answer of an implementation, before anyone judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors_corpus import steps
from safetensors_corpus.judging.answer import OUTCOMES, UNSAFE, Answer, Outcome
from safetensors_corpus.judging.content import bounded, size_of

if TYPE_CHECKING:
    from safetensors_corpus import Case

STEPS = tuple(steps.STEPS)
"""Names of the steps, in the order in which they are asked."""


class Check(NamedTuple):
    """The result of one promise of the step ``device``: a key of ``device_checks.CHECKS``, and the words.

    ``status`` is ``pass``, ``fail``, or ``unknown`` for what this device or this reader does not show.
    """

    name: str
    status: str
    message: str = ""


@dataclass(frozen=True)
class StepResult(Answer):
    """The outcome of one step, with what the harness measured.

    Attributes:
        checks: what the worker looked into besides, for the step ``device``.
        wall_ms: wall time in milliseconds as seen by the harness.
        cpu_ms: processor time in milliseconds as told by the worker, None when it does not tell.
        spent_ms: processor time in milliseconds that the harness measured, over all processes of the worker.
            Not more than the time by the clock, so that work on several processors at once is no fault;
            None where it was not measured.
        peak_bytes: growth of the worker's resident memory at its highest, None where it was not measured.
        read_bytes: bytes that the worker asked the system for, None where it was not measured. What is read
            through a mapping is not counted.
        stderr: last words on standard error during the step.
        noise: what the worker printed on standard output beside its answers.
        changed: what it did to the file that it was to read, empty for nothing.
        cut: of a content that was too large to keep what there is beside its first tensors and metadata, as
            by ``bounded``; None when all is there.
    """

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

    @classmethod
    def of(cls, **told: Any) -> StepResult:
        """Return a result of these fields, ``outcome`` among them, the others as they are by default.

        A frozen class sets every field by a call, which takes longer than all else of reading an answer.
        """
        made = object.__new__(cls)
        made.__dict__.update(told)
        return made

    @property
    def content(self) -> dict[str, Any] | None:
        """The content that an accepting answer tells, as in a run record; None when it tells nothing."""
        told = super().content
        return told if told is None or self.cut is None else {**told, **self.cut}


MAX_CONTENT = 192 << 10
"""Most bytes of a content as JSON that are kept whole: more than any valid file of the corpus has."""
MAX_TOTAL = 64 << 20
"""Most bytes of contents that one run keeps whole; those of all files of the corpus are a tenth of it."""
KEPT_CONTENT = 8 << 10
"""About how many bytes are kept of a content that is not kept whole."""


class KeptContent:
    """The share of the contents reported by one implementation that a run keeps."""

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
    """The implementation that answers: identity, the steps it has and the features it declares to lack.

    ``steps`` has ``device`` only where one was asked for; ``loads`` is true when it has that step at all.
    ``areas`` are those of the corpus that it claims to judge, empty for all; ``verdict_only`` is true when it
    says only whether a file is valid.
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
        """Return the steps of a case that are to be run: those that it has, of a case within its claims."""
        steps = case.steps_for(self.steps, self.areas)
        if "device" in self.steps and loadable(case) and case.is_claimed(self.areas):
            steps.append("device")
        return steps

    @property
    def label(self) -> str:
        """Selector and version, as shown to people."""
        return f"{self.selector} {self.version}" if self.version != "unknown" else self.selector


def loadable(case: Case) -> bool:
    """Tell whether a case is a plain file to be read, which can be loaded onto a device as well."""
    return case.kind == "read" and "read" in case.steps and case.action is None


__all__ = [
    "OUTCOMES",
    "STEPS",
    "UNSAFE",
    "Answer",
    "Check",
    "Implementation",
    "Outcome",
    "StepResult",
    "loadable",
]
