"""The words for judging: every verdict, its meaning, and which of them fail a run.

Verdicts compare an outcome with a case. Security verdicts and interoperability verdicts are never added up
into one number without being shown apart.
"""

from __future__ import annotations

from collections.abc import Iterable

VERDICTS: dict[str, str] = {
    "unsafe": "crashed, hung or ran out of its memory limit, whatever was expected",
    "wrong-content": "accepted, but reported other tensors, bytes or metadata than the file holds",
    "wrong-accept": "accepted a file that must be refused",
    "wrong-reject": "refused a file that must be accepted",
    "choice-inconsistent": "answers to the cases of one choice contradict each other",
    "harness-error": "the adapter failed; nothing is known about the implementation",
    "late-reject": "opened a file that must be refused and refused it only when reading",
    "not-strict": "missed a recommendation that is no must",
    "unsupported": "well formed, but needs a feature that the implementation does not have",
    "choice": "took one of several legitimate options; the option stands behind the colon",
    "pass": "as expected",
}
"""Verdict -> meaning, worst first."""

FAILING: frozenset[str] = frozenset(
    {"unsafe", "wrong-content", "wrong-accept", "wrong-reject", "choice-inconsistent", "harness-error"}
)
"""Verdicts that fail a run."""

STRICT_FAILING: frozenset[str] = FAILING | {"late-reject", "not-strict"}
"""Verdicts that fail a run under ``--strict``."""

SECURITY: frozenset[str] = frozenset({"unsafe", "wrong-content", "wrong-accept"})
"""Verdicts that an attacker can use. Expected failures of these need an issue and a review date."""


def kind_of(verdict: str) -> str:
    """Return the verdict without its option: ``choice:accept`` -> ``choice``."""
    return verdict.partition(":")[0]


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of some verdicts (``pass`` for none)."""
    order = list(VERDICTS)
    return min(verdicts, key=lambda v: order.index(kind_of(v)), default="pass")
