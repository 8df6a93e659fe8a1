"""How severe a finding is, how difficult it is to trigger, and the advice on it.

Severity depends on the outcome and never on the number of cases. A single file that crashes a reader is worse
than a hundred files that it accepts without consequences. Difficulty is a separate scale: anybody can send a
file, but a race requires a local user, no matter how bad the outcome is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from importlib.resources import files

from msgspec import Struct

from safetensors_corpus.judging.verdicts import effect_of, kind_of
from safetensors_corpus.typed import typed
from safetensors_reference import rule_book

from .record.run import Row

SEVERITIES: dict[str, str] = {
    "critical": "memory corruption: the process dies from a memory fault outside any mapped file",
    "high": "the process crashes, it uses unbounded time or memory, or it reports wrong content",
    "medium": "the program accepts a file that other readers interpret differently or that exceeds its "
    "bounds, it writes a file that differs from the given data, or it raises an exception that callers "
    "do not catch",
    "low": "the program accepts a harmless violation or notices it late, or it rejects a valid file",
    "informational": "the program does not follow a recommendation",
}

DIFFICULTIES: dict[str, str] = {
    "low": "a file or a folder of shards and the default call are enough",
    "medium": "it also takes a certain request, call or writer input, not just a file",
    "high": "it takes a file that changes while it is open",
}

OUTCOMES: dict[str, str] = {
    "memory": "dies from a memory fault on",
    "crash": "crashes on",
    "resources": "uses unbounded time or memory on",
    "escape": "writes outside the folder in",
    "content": "reports wrong content for",
    "panic": 'raises an exception that "except Exception" does not catch (the process survives) on',
    "accept": "accepts",
    "late": "opens but later fails to read",
    "reject": "rejects",
    "cost": "exceeds its budget on",
    "exception": "rejects with an undocumented exception",
    "contradiction": "contradicts itself on",
    "strictness": "does not follow a recommendation on",
}
"""Class of outcome -> verb in the title of a finding, worst first."""

SECURITY_SEVERITY = {"critical": 9.1, "high": 7.5, "medium": 5.3, "low": 2.5, "informational": 0.0}
"""Class of severity -> number for code scanning services, within the band of the same name."""

# Weaknesses that make two readers read a file differently, or that make a reader access bytes outside the
# file.
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
"""CWE numbers by class of outcome, for faults that have none of their own."""
_BETWEEN = {"lifecycle": 367, "concurrent": 362}
"""CWE number by step, for races between two points in time or between two readers."""
NO_WEAKNESS = frozenset({"reject", "cost", "exception", "strictness", "contradiction"})
"""Classes of outcome in which the reader accepts nothing harmful."""
CONFORMANCE_ONLY = 684
"""CWE number of violations that do not help an attacker."""
_RESOURCES = frozenset({"hang", "exhausted"})
_MEMORY_FAULTS = ("SIGSEGV",)
"""Signals of memory corruption. SIGBUS results from truncating a mapped file and exposes no foreign bytes."""
PANIC = "PanicException"
"""Exception for a Rust panic. It is not an ``Exception``, so handlers miss it, but the process survives."""


def outcome_class(row: Row) -> str:
    kind, effect = kind_of(row["verdict"]), effect_of(row["verdict"])
    if kind == "unsafe":
        if row["outcome"] == "crash":
            message = str(row.get("message") or "")
            if row.get("exception") or PANIC in message:
                return "panic"
            return "memory" if any(name in message for name in _MEMORY_FAULTS) else "crash"
        if row["step"] == "export" and row["outcome"] not in _RESOURCES:
            return "escape"
        # If a reader accepts or rejects the file and the verdict is still unsafe, it has exceeded its budget.
        return "resources"
    if effect in ("content", "accept", "reject", "cost", "exception"):
        return effect
    return {"late-reject": "late", "choice-inconsistent": "contradiction"}.get(kind, "strictness")


def severity(outcome: str, step: str, weaknesses: Collection[int]) -> str:
    """Return the severity of an outcome; ``weaknesses`` are the CWE numbers of the fault behind it."""
    if outcome == "memory":
        return "critical"
    if outcome in ("crash", "resources", "escape"):
        return "high"
    if outcome == "content":
        return "medium" if step in ("write", "sharded", "export") else "high"
    if outcome == "panic":
        return "medium"
    if outcome == "accept":
        return "medium" if _CONSEQUENT.intersection(weaknesses) else "low"
    return "informational" if outcome == "strictness" else "low"


def difficulty(step: str) -> str:
    medium = step in ("remote", "slice", "write", "sharded")
    return "high" if step in _BETWEEN else "medium" if medium else "low"


def weaknesses_of(outcome: str, row: Row, of_fault: Sequence[int]) -> tuple[int, ...]:
    if outcome in NO_WEAKNESS:
        # The reader accepted nothing harmful; it only violates the specification.
        return (CONFORMANCE_ONLY,)
    if outcome == "resources":
        own = (400,) if row["outcome"] == "hang" or row["outcome"] not in _RESOURCES else (770, 400)
        return tuple(dict.fromkeys((*own, *of_fault)))
    if outcome == "escape":
        return (22,)
    if outcome in ("memory", "crash", "panic"):
        # A misread file does not explain a crash.
        of_fault = [n for n in of_fault if n in _CRASHING]
    if row["step"] in _BETWEEN:
        of_fault = [_BETWEEN[row["step"]], *of_fault]
    return tuple(of_fault) or _DEFAULT_WEAKNESSES[outcome]


class _AdviceOnEnd(Struct):
    rules: list[str]
    advice: str


class _Advice(Struct):
    outcome: dict[str, str]
    end: list[_AdviceOnEnd]
    property: dict[str, str]
    code: dict[str, str]
    rule: dict[str, str]
    cause: dict[str, str]


_ADVICE = typed(tomllib.loads((files(__package__) / "advice.toml").read_text("utf-8")), _Advice)
ADVICE_BY_OUTCOME, ADVICE_BY_PROPERTY = _ADVICE.outcome, _ADVICE.property
ADVICE_BY_CODE, ADVICE_BY_CAUSE = _ADVICE.code, _ADVICE.cause
_PROPERTY_OF_RULE = {
    "WRT-01": "valid",
    "WRT-02": "header-padded",
    "WRT-04": "aligned",
    "WRT-12": "deterministic",
    "WRT-13": "idempotent",
    "WRT-14": "target-unchanged",
    "EXP-01": "outside",
    "EXP-02": "complete",
    "EXP-03": "portable",
}
ADVICE_BY_RULE = (
    _ADVICE.rule
    | {rule: ADVICE_BY_PROPERTY[name] for rule, name in _PROPERTY_OF_RULE.items()}
    | {"API-14": ADVICE_BY_OUTCOME["exception"]}
)
ADVICE_BY_END = {rule: one.advice for one in _ADVICE.end for rule in one.rules}
"""Rule or area of rules -> advice on crashes and memory faults."""
_ENDS = {name: name for name in ("memory", "crash", "panic", "resources")} | {"cost": "resources"}
"""Class of outcome -> class of advice on it, for programs that die or need too much."""
_HEADER_AREAS = frozenset({"FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "DAT"})
"""Areas in which a program that uses unbounded time or memory trusts the header of a file."""
NOT_KNOWN = "rule not known"
NO_RULE = "Run the input again, and change it step by step to find what causes the wrong answer."
OTHER_RULE = "Read the rule, and compare it with the answer."


def recommendation(outcome: str, code: str | None, rule: str, broken: str = "") -> str:
    """Return advice on an accepted fault (``code``) or on a property of a written file (``broken``)."""
    if outcome in _ENDS:
        return of_end(_ENDS[outcome], rule)
    if advice := ADVICE_BY_OUTCOME.get(outcome) or ADVICE_BY_PROPERTY.get(broken):
        return advice
    known = rule_book().rules.get(rule)
    # The file may also have faults that do not concern the rule.
    concerned = known is None or code in known.codes
    if outcome == "accept" and code in ADVICE_BY_CODE and concerned and rule not in ADVICE_BY_RULE:
        return ADVICE_BY_CODE[code]
    return of_rule(rule)


def to_upstream(advice: str, parser: str) -> str:
    if not parser:
        return advice
    return f"{advice} The parser is the one of {parser} or a copy of it, so report the bug there."


def of_verdict(verdict: str, rule: str) -> str:
    """Return advice for a verdict under a rule. It never suggests stricter checks after a wrong rejection."""
    return ADVICE_BY_OUTCOME["reject"] if verdict == "wrong-reject" else of_rule(rule)


def of_end(outcome: str, rule: str) -> str:
    """Return advice for a program that dies, panics or uses unbounded time or memory under a rule."""
    area, general = rule[:3], ADVICE_BY_OUTCOME[outcome]
    if not rule or (outcome == "resources" and area in _HEADER_AREAS):
        return general
    own = of_rule(rule)
    if outcome != "resources":
        own = ADVICE_BY_END.get(rule) or ADVICE_BY_END.get(area, own)
    return f"{general} {own}" if outcome == "panic" else own


def of_rule(rule: str) -> str:
    if not rule:
        return NO_RULE
    known = rule_book().rules.get(rule)
    codes = known.codes if known is not None else ()
    return ADVICE_BY_RULE.get(rule) or next(
        (ADVICE_BY_CODE[code] for code in codes if code in ADVICE_BY_CODE), OTHER_RULE
    )
