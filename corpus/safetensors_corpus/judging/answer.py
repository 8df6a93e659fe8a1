"""What an implementation did with one case, before anyone judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

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


class Refused(Exception):  # noqa: N818 - a refusal is an answer and not an error
    """An implementation in this process refuses the file; the text names the check."""


class Flaw(NamedTuple):
    """What is wrong about a file that was written, or about the folder that it stands in.

    ``property`` is ``valid`` for a file that breaks rules, ``missing`` where there is none, else a key of
    ``written_folder.RULES_OF``; ``rule`` is the rule that the file breaks, empty for the others; ``text``
    says what is wrong; ``choice`` is the choice that the fault falls under, if it does.
    """

    property: str
    rule: str
    text: str
    choice: str | None = None


class Excess(NamedTuple):
    """A part of a case's budget that was exceeded: ``seconds``, ``peak_bytes`` or ``read_bytes``."""

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
        outcome: what happened.
        message: the implementation's words, or the harness's for a crash, hang or harness error.
        tensors: on accept, the tensors reported: dicts with ``name`` and as far as the implementation tells
            ``dtype``, ``shape``, ``nbytes``, ``sha256`` and ``unsupported``; None when it tells none. Of a
            writer those of the file that was written, None when that cannot be read.
        metadata: on accept, the metadata map reported.
        has_metadata: False when the implementation does not report metadata at all.
        tensor_count: on accept, how many tensors there are, when that alone was asked.
        flaws: what is wrong about a written file besides its content.
        over_budget: parts of the case's budget that were exceeded, with the amounts.
        exception: type of the exception that carried the refusal.
        documented: whether that type is one the implementation documents, None when unknown.
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

    @property
    def content(self) -> dict[str, Any] | None:
        """What an accepting answer tells, in the form of the manifest; None when it tells nothing."""
        if self.outcome != "accept" or self.tensors is None:
            return None
        told: dict[str, Any] = {"tensors": self.tensors}
        if self.has_metadata:
            told["metadata"] = self.metadata
        return told

    @property
    def unsupported_tensors(self) -> list[str]:
        """Names of tensors that the implementation said it cannot hand out."""
        return [row["name"] for row in self.tensors or () if row.get("unsupported")]
