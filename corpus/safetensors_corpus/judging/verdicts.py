"""The verdicts: their meanings, their order, and whether they fail a run.

Reports separate security verdicts from interoperability verdicts. They also separate violations of the
written format from violations of rules on which it is silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

VERDICTS: dict[str, str] = {
    "unsafe": (
        "crashed, hung, exceeded its memory limit or wrote outside its folder, whatever the case expected"
    ),
    "wrong-content": "accepted the file, but reported tensors, bytes or metadata that it does not contain",
    "wrong-accept": "accepted a file that the written format forbids",
    "wrong-reject": "rejected a file that the written format allows",
    "deviation": (
        "broke a rule that comes from the official library or from our hardening, because the written "
        "format is silent; the effect follows the colon"
    ),
    "choice-inconsistent": "answers to the cases of one choice contradict each other",
    "harness-error": "the adapter failed; this says nothing about the implementation",
    "late-reject": "opened a file that it must reject, and rejected it only in the step read",
    "not-strict": "did not follow a recommendation",
    "unsupported": "the file is valid, but needs a feature that the implementation lacks",
    "choice": "took one of several legitimate options; the option follows the colon",
    "pass": "as expected",
}
"""Maps each verdict to its meaning, worst first."""

DEVIATIONS: dict[str, str] = {
    "content": "reports or writes content other than expected",
    "accept": "accepts a file that the rule forbids",
    "reject": "rejects a file that the rule allows",
    "cost": "uses more time, memory or reads than the rule allows",
    "exception": "rejects with an undocumented exception",
}
"""Maps each effect of a deviation (the part after the colon) to its meaning, worst first."""

BASES: dict[str, str] = {
    "text": "the written format requires it",
    "official": "the written format is silent, but the official library follows the rule",
    "ours": "the written format is silent; the rule is our hardening or a convention of loaders",
}
"""Maps each basis of a rule to its meaning."""

FAILING = frozenset(VERDICTS) - {"late-reject", "not-strict", "unsupported", "choice", "pass"}
"""Verdicts that fail a run."""

STRICT_FAILING = FAILING | {"late-reject", "not-strict"}
"""Verdicts that fail a run under ``--strict``."""

SECURITY: frozenset[str] = frozenset({"unsafe", "wrong-content", "wrong-accept"})
"""Verdicts that an attacker can exploit. Expected failures with these verdicts need an issue and a review
date.
"""

_ORDER = {verdict: place for place, verdict in enumerate(VERDICTS)}
_EFFECT_ORDER = {effect: place for place, effect in enumerate(DEVIATIONS)}


@lru_cache(maxsize=1024)
def kind_of(verdict: str) -> str:
    return verdict.partition(":")[0]


def fails(verdict: str, *, strict: bool = False) -> bool:
    return kind_of(verdict) in (STRICT_FAILING if strict else FAILING)


def effect_of(verdict: str) -> str:
    """Return the effect of a verdict, such as ``accept`` for ``deviation:accept``, or the verdict itself."""
    kind, _, effect = verdict.partition(":")
    return effect if kind == "deviation" else kind.removeprefix("wrong-")


@lru_cache(maxsize=1024)
def badness(verdict: str) -> tuple[int, int]:
    """Return the sort key of a verdict, with the worst verdict first."""
    kind, _, effect = verdict.partition(":")
    return _ORDER[kind], _EFFECT_ORDER.get(effect, 0) if kind == "deviation" else 0


def worst(verdicts: Iterable[str]) -> str:
    return min(verdicts, key=badness, default="pass")
