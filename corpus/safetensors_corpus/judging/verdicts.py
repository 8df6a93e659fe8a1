"""The words for judging: every verdict, its meaning, and which of them fail a run.

A verdict compares an outcome with a case. Security verdicts and interoperability verdicts are never added up
into one number without being shown apart, and what breaks the written format is never mixed with what breaks
a rule on which the written format is silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

VERDICTS: dict[str, str] = {
    "unsafe": "crashed, hung or ran out of its memory limit, whatever was expected",
    "wrong-content": "accepted, but reported other tensors, bytes or metadata than the file holds",
    "wrong-accept": "accepted a file that the written format forbids",
    "wrong-reject": "refused a file that the written format allows",
    "deviation": "broke a rule on which the written format is silent: the official library follows it, or "
    "it is our hardening; what it did stands behind the colon",
    "choice-inconsistent": "answers to the cases of one choice contradict each other",
    "harness-error": "the adapter failed; nothing is known about the implementation",
    "late-reject": "opened a file that must be refused and refused it only when reading",
    "not-strict": "missed a recommendation that is no must",
    "unsupported": "well formed, but needs a feature that the implementation does not have",
    "choice": "took one of several legitimate options; the option stands behind the colon",
    "pass": "as expected",
}
"""Verdict -> meaning, worst first."""

DEVIATIONS: dict[str, str] = {
    "content": "reports or writes other content",
    "accept": "accepts what the rule refuses",
    "reject": "refuses what the rule allows",
    "cost": "spends more time, memory or reads than the rule allows",
    "exception": "refuses with an exception that its documentation does not name",
}
"""What a deviation did, the word behind its colon -> meaning, worst first."""

BASES: dict[str, str] = {
    "text": "the written format requires it",
    "official": "the written format is silent; the official library does it",
    "ours": "the written format is silent; it is our hardening, or a convention of loaders",
}
"""What a rule rests on -> meaning."""

FAILING: frozenset[str] = frozenset(
    {
        "unsafe",
        "wrong-content",
        "wrong-accept",
        "wrong-reject",
        "deviation",
        "choice-inconsistent",
        "harness-error",
    }
)
"""Verdicts that fail a run."""

STRICT_FAILING: frozenset[str] = FAILING | {"late-reject", "not-strict"}
"""Verdicts that fail a run under ``--strict``."""

SECURITY: frozenset[str] = frozenset({"unsafe", "wrong-content", "wrong-accept"})
"""Verdicts that an attacker can use. Expected failures of these need an issue and a review date."""

_ORDER = {verdict: place for place, verdict in enumerate(VERDICTS)}
_DEVIATION = {what: place for place, what in enumerate(DEVIATIONS)}


@lru_cache(maxsize=1024)
def kind_of(verdict: str) -> str:
    return verdict.partition(":")[0]


def fails(verdict: str, *, strict: bool = False) -> bool:
    return kind_of(verdict) in (STRICT_FAILING if strict else FAILING)


def effect_of(verdict: str) -> str:
    """Return what was done, whether the text demands otherwise or not: ``content``, ``accept``, ``reject``.

    ``wrong-accept`` and ``deviation:accept`` are the same effect; a verdict of another kind is its own.
    """
    kind, _, what = verdict.partition(":")
    return what if kind == "deviation" else kind.removeprefix("wrong-")


@lru_cache(maxsize=1024)
def badness(verdict: str) -> tuple[int, int]:
    """Return the place of a verdict among all, the worst first."""
    kind, _, what = verdict.partition(":")
    return _ORDER[kind], _DEVIATION.get(what, 0) if kind == "deviation" else 0


def worst(verdicts: Iterable[str]) -> str:
    return min(verdicts, key=badness, default="pass")


@lru_cache(maxsize=4096)
def worse(one: str, other: str) -> str:
    """Return the worse of two verdicts: what ``worst`` returns, for those who ask half a million times."""
    return worst((one, other))
