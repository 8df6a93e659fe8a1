"""The outcome of a step before it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

Outcome = Literal["accept", "reject", "unsupported", "crash", "hang", "exhausted", "harness-error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
UNSAFE: frozenset[Outcome] = frozenset({"crash", "hang", "exhausted"})


class Refused(Exception):  # noqa: N818 - a refusal is an answer and not an error
    """Raised by an in-process implementation to reject a file. The message names the failed check."""


class Flaw(NamedTuple):
    """A defect of a written file or its folder.

    ``property`` is ``valid`` (the file breaks ``rule``, possibly at a point that ``choice`` leaves open),
    ``missing`` (there is no file) or a key of ``written_folder.RULES_OF``.
    """

    property: str
    rule: str
    text: str
    choice: str | None = None


class Excess(NamedTuple):
    """An exceeded budget: ``seconds``, ``peak_bytes`` or ``read_bytes``."""

    name: str
    used: float
    allowed: float

    @property
    def ratio(self) -> float:
        return self.used / self.allowed if self.allowed else float("inf")

    def __str__(self) -> str:
        return _EXCESS[self.name].format(used=self.used, allowed=self.allowed)


_EXCESS = {
    "seconds": "processor time {used:,.3g} s of {allowed:,.3g} s",
    "peak_bytes": "{used:,.0f} bytes of memory of {allowed:,.0f}",
    "read_bytes": "{used:,.0f} bytes read of {allowed:,.0f}",
}


@dataclass(frozen=True)
class Answer:
    """The outcome of one step.

    Attributes:
        message: message from the implementation, or from the harness for a crash, hang or harness error.
        tensors: on accept, dicts with ``name`` and optionally ``dtype``, ``shape``, ``nbytes``,
            ``sha256`` and ``unsupported``; None if the implementation does not report tensors. For a
            writer, the tensors of the written file; None if the file is unreadable.
        has_metadata: False if the implementation never reports metadata.
        tensor_count: number of tensors on accept, if only the count was requested.
        flaws: defects of a written file other than its content.
        exception: type of the exception that rejected the file.
        documented: whether the implementation documents that type; None if this is unknown.
    """

    outcome: Outcome
    message: str = ""
    tensors: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    has_metadata: bool = False
    tensor_count: int | None = None
    flaws: tuple[Flaw, ...] = ()
    over_budget: tuple[Excess, ...] = ()
    exception: str | None = None
    documented: bool | None = None
