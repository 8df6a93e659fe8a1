"""The two scales of a finding: severity of its outcome, and difficulty to trigger it.

Severity depends on the outcome, never on the number of cases: one file that crashes a reader is worse than a
hundred that it accepts without consequence. Difficulty is separate, because a file that anybody can send and
a race that needs a local user differ, however bad the outcome.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from safetensors_corpus.judging.verdicts import effect_of, kind_of

from ..record.run import Row

SEVERITIES: dict[str, str] = {
    "critical": "memory corruption: the process dies of a memory fault outside any mapped file",
    "high": "the process crashes, time or memory is unbounded, or the reported content is wrong",
    "medium": "a file is accepted that other readers read differently or that exceeds its bounds, a written "
    "file differs from the given data, or an exception escapes the handlers of callers",
    "low": "a harmless violation is accepted or noticed late, or a valid file is refused",
    "informational": "a recommendation is missed",
}

DIFFICULTIES: dict[str, str] = {
    "low": "a file or a folder of shards and the default call are enough",
    "medium": "it takes a certain request, call or input of a writer besides a file",
    "high": "it takes a file that changes while it is open",
}

OUTCOMES: dict[str, str] = {
    "memory": "dies of a memory fault on",
    "crash": "crashes on",
    "resources": "spends time or memory without bound on",
    "content": "reports wrong content for",
    "panic": "raises an exception that except Exception misses (the process lives) on",
    "accept": "accepts",
    "late": "opens, and fails only to read,",
    "reject": "refuses",
    "cost": "exceeds its budget on",
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
"""Severity from 0 to 10 for code scanning services, within their band of the same name."""

# Weaknesses by which two readers read a file differently, or a reader leaves the bounds of the file.
_CONSEQUENT = frozenset({22, 125, 130, 131, 190, 191, 436, 502, 787, 908})
_CRASHING = frozenset({125, 130, 131, 190, 191, 674, 770, 787, 789, 1284, 1285})
_DEFAULT_WEAKNESSES = {
    "memory": (125,),
    "crash": (248,),
    "panic": (248,),
    "content": (436,),
    "accept": (20,),
    "late": (20,),
}
"""CWE numbers by class of outcome, for faults without any."""
_BETWEEN = {"lifecycle": 367, "concurrent": 362}
"""CWE number by step, for races between two moments or two readers."""
NO_WEAKNESS = frozenset({"reject", "cost", "exception", "strictness", "contradiction"})
"""Classes of outcome in which nothing gets past the reader."""
CONFORMANCE_ONLY = 684
"""CWE number of violations that are useless to an attacker."""
_RESOURCES = frozenset({"hang", "exhausted"})
_MEMORY_FAULTS = ("SIGSEGV",)
"""Not SIGBUS, which follows from truncating a mapped file and reads no foreign byte."""


PANIC = "PanicException"
"""Exception of Rust libraries in Python for a panic. It is not an ``Exception``, so handlers miss it, but the
process survives. Runs count both as crashes."""


def outcome_class(row: Row) -> str:
    kind, effect = kind_of(row["verdict"]), effect_of(row["verdict"])
    if kind == "unsafe":
        if row["outcome"] == "crash":
            message = str(row.get("message") or "")
            if row.get("exception") or PANIC in message:
                return "panic"
            return "memory" if any(name in message for name in _MEMORY_FAULTS) else "crash"
        # A reader that accepts or refuses and is still unsafe has exceeded its budget.
        return "resources"
    if effect in ("content", "accept", "reject", "cost", "exception"):
        return effect
    return {"late-reject": "late", "choice-inconsistent": "contradiction"}.get(kind, "strictness")


def severity(outcome: str, step: str, weaknesses: Collection[int]) -> str:
    """Return the severity of a class of outcome; ``weaknesses`` are CWE numbers of the missed fault."""
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
    medium = dict.fromkeys(("remote", "slice", "write", "sharded"), "medium")
    return {"lifecycle": "high", "concurrent": "high", **medium}.get(step, "low")


def weaknesses_of(outcome: str, row: Row, of_fault: Sequence[int]) -> tuple[int, ...]:
    if outcome in NO_WEAKNESS:
        # Nothing got past the reader; it just violates the specification.
        return (CONFORMANCE_ONLY,)
    if outcome == "resources":
        own = (400,) if row["outcome"] == "hang" or row["outcome"] not in _RESOURCES else (770, 400)
        return tuple(dict.fromkeys((*own, *of_fault)))
    if outcome in ("memory", "crash", "panic"):
        # Misreading a file does not explain a crash.
        of_fault = [n for n in of_fault if n in _CRASHING]
    if row["step"] in _BETWEEN:
        of_fault = [_BETWEEN[row["step"]], *of_fault]
    return tuple(of_fault) or _DEFAULT_WEAKNESSES[outcome]
