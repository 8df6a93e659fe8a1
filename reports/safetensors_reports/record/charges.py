"""Use all the cases of a run to find the rules that a program breaks.

The harness attributes a single wrong answer to the first rule of its case. The whole run shows which rule
correlates with the failures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from safetensors_corpus.judging.charge import DTYPES, FORBIDDING, OUTPUT, SLICES
from safetensors_corpus.manifest import ANY_VALID_FILE, AREA_OF_RULES
from safetensors_reference.rules.book import BASES, rule_book

Row = dict[str, Any]

KINDS = frozenset({"accept", "reject", "valid"})
ANY_METADATA = "MET-04"
MOST, FEW = 0.5, 0.2
_PLAIN = {"HDR-05": "HDR-03", "HDR-10": "HDR-09", "DTY-09": "OFF-05"}
"""Rule about comparisons -> the rule that a reader breaks if it does not compare."""


def recharge(rows: Sequence[Row]) -> list[Row]:
    """Attribute each failure to the rule of its case under which most cases failed in the same way.

    If no rule stands out, failures are attributed to FRM-11.
    """
    shares = {kind: _shares(kind, rows) for kind in KINDS}
    out = []
    for row in rows:
        before = _failures(row)
        failures = [_charged(f, row, shares[kind]) if (kind := _kind(f)) else f for f in before]
        out.append(row if failures == before else {**row, "failures": failures, "rule": failures[0]["rule"]})
    return out


@dataclass(frozen=True)
class _Shares:
    """Shares of failing cases by rule; ``own`` counts only cases in which the rule comes first."""

    of: dict[str, float]
    own: dict[str, float]
    charged: Collection[str]

    @property
    def wants_format(self) -> bool:
        return self.of.get(ANY_METADATA, 0) >= MOST


def _shares(kind: str, rows: Sequence[Row]) -> _Shares:
    failed: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    own_failed: Counter[str] = Counter()
    own_cases: Counter[str] = Counter()
    charged: set[str] = set()
    for row in rows:
        if _is_combination(row):
            continue
        faults = [failure["rule"] for failure in _failures(row) if _kind(failure) == kind]
        if faults or _kept(kind, row):
            cases.update(_rules(kind, row))
            own_cases.update(_about(row)[:1])
        if faults:
            failed.update(_rules(kind, row))
            own_failed.update(_about(row)[:1])
            charged.update(faults)
    of = {rule: n / (cases[rule] + 1) for rule, n in failed.items()}
    own = {rule: n / own_cases[rule] for rule, n in own_failed.items()}
    return _Shares(of, own, charged - {ANY_VALID_FILE})


def _charged(failure: Row, row: Row, shares: _Shares) -> Row:
    first, rule = next(iter(_about(row)), ""), failure["rule"]
    if rule not in (first, ANY_VALID_FILE, SLICES):
        return failure
    broad = _is_combination(row) or rule == SLICES or (rule == ANY_VALID_FILE and shares.wants_format)
    ranks: list[str] = list(BASES)  # the most binding basis first
    fitting = [
        other
        for other in _rules(_kind(failure), row)
        if (other in shares.charged and shares.of[other] >= (MOST if broad else 0))
        or (other == first and not broad)
        if (entry := rule_book().rules.get(other))
        and ranks.index(entry.basis) <= ranks.index(failure["basis"])
    ]
    best = max(fitting, key=lambda other: shares.of.get(other, 0), default=rule)
    odd = best == first and shares.own.get(first, 0) < FEW and first[:3] in AREA_OF_RULES and first != DTYPES
    # A writer rejects calls instead of files, and every rejected dtype has a separate case.
    if odd and _kind(failure) == "reject" and row["step"] not in ("write", "sharded"):
        best = ANY_VALID_FILE
    return {**failure, "rule": best}


def _is_combination(row: Row) -> bool:
    return bool(_about(row)[:1] == [ANY_VALID_FILE])


def _rules(kind: str, row: Row) -> list[str]:
    if kind == "accept":
        return [rule for first in _about(row)[:1] for rule in (first, _PLAIN.get(first)) if rule]
    if kind == "valid":  # any call may produce an invalid file
        return list(dict.fromkeys([*_about(row), OUTPUT]))
    return [rule for rule in _about(row) if rule not in FORBIDDING]


def _about(row: Row) -> list[str]:
    return row.get("rules") or []


def _kind(failure: Row) -> str:
    if failure["property"] == "valid":
        return "valid"
    effect = re.split("[-:]", failure["verdict"])[-1]
    return effect if failure["rule"] and failure["property"] == "outcome" and effect in KINDS else ""


def _kept(kind: str, row: Row) -> bool:
    if kind == "accept":
        return bool(row["outcome"] == "reject" and row["verdict"] == "pass")
    return row["outcome"] == "accept" and all(f["property"] != "outcome" for f in _failures(row))


def _failures(row: Row) -> list[Row]:
    return row.get("failures") or []  # records of older suites have no rules
