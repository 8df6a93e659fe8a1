"""What an implementation did with one file in one step, before anyone judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

STEPS = ("open", "read")
"""The steps of reading, in order: validate and list, then hand out every tensor."""

Outcome = Literal["accept", "reject", "unsupported", "crash", "hang", "exhausted", "harness-error"]
OUTCOMES: tuple[Outcome, ...] = (
    "accept",
    "reject",
    "unsupported",
    "crash",
    "hang",
    "exhausted",
    "harness-error",
)
UNSAFE: frozenset[Outcome] = frozenset({"crash", "hang", "exhausted"})


@dataclass(frozen=True)
class StepResult:
    """The outcome of one step.

    Attributes:
        outcome: what happened.
        message: the implementation's words, or the harness's for a crash, hang or harness error.
        tensors: on accept, the tensors reported: dicts with ``name`` and as far as the implementation tells
            ``dtype``, ``shape``, ``nbytes``, ``sha256`` and ``unsupported``; None when it tells none.
        metadata: on accept, the metadata map reported.
        has_metadata: False when the implementation does not report metadata at all.
        exception: type of the exception that carried the refusal.
        documented: whether that type is one the implementation documents, None when unknown.
        wall_ms: wall time in milliseconds as seen by the harness.
        cpu_ms: processor time in milliseconds as told by the worker, None when it does not tell.
        peak_bytes: growth of the worker's resident memory at its highest, None where it cannot be read.
        stderr: last words on standard error during the step.
        noise: what the worker printed on standard output beside its answers.
    """

    outcome: Outcome
    message: str = ""
    tensors: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    has_metadata: bool = False
    exception: str | None = None
    documented: bool | None = None
    wall_ms: float = 0.0
    cpu_ms: float | None = None
    peak_bytes: int | None = None
    stderr: str = ""
    noise: str = ""


@dataclass(frozen=True)
class Implementation:
    """Who answers: identity, the steps it has and the features it declares to lack."""

    name: str
    version: str
    language: str
    steps: tuple[str, ...]
    lacks: frozenset[str] = frozenset()
    selector: str = ""

    @property
    def label(self) -> str:
        """Selector and version, as shown to people."""
        return f"{self.selector} {self.version}" if self.version != "unknown" else self.selector
