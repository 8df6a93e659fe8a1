"""The two scales of a finding: how bad its outcome is, and how hard it is to bring about.

Severity goes by the outcome and never by how many cases show it: one file that crashes a reader is worse
than a hundred that it accepts without consequence. Difficulty is kept apart, because a file that anybody can
send and a race that needs a local user are not the same, however bad either ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import effect_of, kind_of

if TYPE_CHECKING:
    from ..record.run import Row

SEVERITIES: dict[str, str] = {
    "critical": "memory is violated: the process dies by a memory fault outside any mapped file",
    "high": "the process crashes, time or memory has no bound, or content is told that is not the file's",
    "medium": "a file is accepted that other readers read differently or that reaches outside its bounds, a "
    "file is written that does not say what was given, or an exception passes the handlers of its callers",
    "low": "a broken rule is accepted without another reading, noticed late, or a valid file is refused",
    "informational": "a recommendation is missed",
}
"""Severity -> what it stands for, worst first."""

DIFFICULTIES: dict[str, str] = {
    "low": "a file, or a folder of shards, alone does it through the default call",
    "medium": "it takes a certain request, call or writer's input besides a file",
    "high": "it takes a file that changes while it is open",
}
"""Difficulty -> what it stands for, easiest first."""

OUTCOMES: dict[str, str] = {
    "memory": "dies by a memory fault on",
    "crash": "crashes on",
    "resources": "spends time or memory without bound on",
    "content": "reports other content than is in",
    "panic": "raises an exception that except Exception misses (the process lives) on",
    "accept": "accepts",
    "late": "refuses only at reading, not at opening,",
    "reject": "refuses",
    "cost": "spends more than it should on",
    "exception": "refuses with an undocumented exception",
    "contradiction": "contradicts itself on",
    "strictness": "misses a recommendation on",
}
"""Class of outcome -> verb of a finding's title, worst first."""

SECURITY_SEVERITY: dict[str, float] = {
    "critical": 9.1,
    "high": 7.5,
    "medium": 5.3,
    "low": 2.5,
    "informational": 0.0,
}
"""Severity as the number from 0 to 10 that code scanning services sort by; inside their band of that name."""

# Weaknesses by which two readers see two files in one, or a reader leaves the bounds of the file.
_CONSEQUENT = frozenset({22, 125, 130, 131, 190, 191, 436, 502, 787, 908})
_CRASHING = frozenset({125, 130, 131, 190, 191, 674, 770, 787, 789, 1284, 1285})
"""Weaknesses by which a process can die."""
_DEFAULT_WEAKNESSES = {
    "memory": (125,),
    "crash": (248,),
    "panic": (248,),
    "content": (436,),
    "accept": (20,),
    "late": (20,),
}
"""Class of outcome -> CWE numbers where the fault has none."""
_BETWEEN = {"lifecycle": 367, "concurrent": 362}
"""Step -> CWE number of what goes wrong between two moments, or two readers."""
NO_WEAKNESS = frozenset({"reject", "cost", "exception", "strictness", "contradiction"})
"""Classes of outcome that do not mean that something got past the reader."""
CONFORMANCE_ONLY = 684
"""CWE number of what is against the format and of no use to an attacker."""
_RESOURCES = frozenset({"hang", "exhausted"})
_MEMORY_FAULTS = ("SIGSEGV",)
"""Not SIGBUS: that is how a mapped file ends which became shorter, and no foreign byte is read by it."""


PANIC = "PanicException"
"""What libraries in Rust raise in Python when they panic. It is no ``Exception``, so that handlers of those
miss it; the process lives and can go on, which one that died cannot. Runs count both as crashes."""


def outcome_class(row: Row) -> str:
    """Return the class of outcome (a key of ``OUTCOMES``) of one failing result of a record."""
    kind, effect = kind_of(row["verdict"]), effect_of(row["verdict"])
    if kind == "unsafe":
        if row["outcome"] == "crash":
            message = str(row.get("message") or "")
            if row.get("exception") or PANIC in message:
                return "panic"
            return "memory" if any(name in message for name in _MEMORY_FAULTS) else "crash"
        # A reader that accepts or refuses and is unsafe nevertheless has left its budget.
        return "resources"
    if effect in ("content", "accept", "reject", "cost", "exception"):
        return effect
    return {"late-reject": "late", "choice-inconsistent": "contradiction"}.get(kind, "strictness")


def severity(outcome: str, step: str, weaknesses: Collection[int]) -> str:
    """Return the severity of a class of outcome.

    Args:
        outcome: key of ``OUTCOMES``.
        step: step that failed; what a writer gets wrong harms the next reader, not the running process.
        weaknesses: CWE numbers of the fault that was not noticed.
    """
    if outcome == "memory":
        return "critical"
    if outcome in ("crash", "resources"):
        return "high"
    if outcome == "content":
        return "medium" if step in ("write", "sharded") else "high"
    if outcome == "panic":
        return "medium"
    if outcome == "accept":
        return "medium" if _CONSEQUENT.intersection(weaknesses) else "low"
    return "informational" if outcome == "strictness" else "low"


def difficulty(step: str) -> str:
    """Return how hard it is to bring about what a step showed."""
    medium = dict.fromkeys(("remote", "slice", "write", "sharded"), "medium")
    return {"lifecycle": "high", "concurrent": "high", **medium}.get(step, "low")


def weaknesses_of(outcome: str, row: Row, of_fault: Sequence[int]) -> tuple[int, ...]:
    """Return the CWE numbers of one failing result, the primary one first; there is always one.

    Args:
        outcome: class of the outcome.
        row: the result.
        of_fault: numbers of the fault that was not noticed.
    """
    if outcome in NO_WEAKNESS:
        # Nothing got past the reader: it does not do what is specified, and that is all.
        return (CONFORMANCE_ONLY,)
    if outcome == "resources":
        own = (400,) if row["outcome"] == "hang" or row["outcome"] not in _RESOURCES else (770, 400)
        return tuple(dict.fromkeys((*own, *of_fault)))
    if outcome in ("memory", "crash", "panic"):
        # That a file could also have been misread is not why a process died.
        of_fault = [n for n in of_fault if n in _CRASHING]
    if row["step"] in _BETWEEN:
        of_fault = [_BETWEEN[row["step"]], *of_fault]
    return tuple(of_fault) or _DEFAULT_WEAKNESSES[outcome]
