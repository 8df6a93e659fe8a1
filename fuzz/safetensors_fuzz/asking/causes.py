"""Which rule a wrong answer to a question is charged with: that of what brings it about, or none.

Where something had to be refused and was not, its faults tell. Where it had to be done, the rules of what is
asked say nothing of the reason: features are taken out of the plan, and of the file, one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from safetensors_conformance.judge import StepVerdict
from safetensors_reference import explain
from safetensors_reports.verdicts import FAILING, kind_of

from ..attribution import RULE_OF_DIFFERENCE, cause_of_refusal
from ..cause import QUESTIONS, Cause, Search, SpentError, unknown
from ..features.feature import Feature, Features
from ..finding import ENTRY
from ..oracle import content, difference_class
from .index_features import INDEXES
from .naming import aspect
from .question import Asking, Plan, PlanError, Question
from .slice_features import SLICES
from .write_features import WRITES
from .write_rules import SHOULD

TABLES: dict[str, list[Feature[Plan]]] = {"slice": SLICES, "write": WRITES, "index": INDEXES}
RULE_OF_ASPECT = {
    "names": "ENT-01",
    "dtype": "DTY-14",
    "shape": "SHP-11",
    "bytes": "DAT-06",
    "metadata": "MET-04",
}
"""What of the content is wrong (``naming.aspect``) -> the rule that says how it must be."""
RULE_OF_PROPERTY = {**SHOULD, "no-foreign-bytes": "WRT-07", "target-unchanged": "WRT-19"}
"""Property of a written file and its folder -> the rule that demands it."""
OF_BYTES = {"SHP-10": "DAT-02", "DTY-05": "DTY-14"}
"""Rule of a feature -> its rule where not refusing it is at fault, but what becomes of its bytes."""
SHARDS = frozenset({"IDX-10", "IDX-11", "IDX-15", "IDX-16"})
"""Rules that say which of several copies and files count."""


@dataclass(frozen=True)
class Wrong:
    """A wrong answer.

    Attributes:
        kind: what was asked.
        plan: of the question.
        question: what was asked and demanded.
        judged: the answer.
        ask: asks another question.
    """

    kind: Asking
    plan: Plan
    question: Question
    judged: StepVerdict
    ask: Callable[[Question], StepVerdict]


def cause_of(wrong: Wrong) -> Cause:
    """Return what a wrong answer is charged with."""
    verdict, judged = kind_of(wrong.judged.verdict), wrong.judged
    if verdict == "harness-error":
        return unknown("the adapter failed, not the implementation")
    if verdict == "wrong-content" and judged.result.fault:
        return Cause(("WRT-01",))
    broken = tuple(dict.fromkeys(RULE_OF_PROPERTY[p] for p in judged.result.broken if p in RULE_OF_PROPERTY))
    if verdict == "wrong-content" and broken:
        return Cause(broken)
    if must_be_refused(wrong.question):
        if verdict == "wrong-accept" or len(wrong.question.parts) == 1:
            return Cause(wrong.question.rules)
        return unknown("several things are wrong with what is asked, and which of them led to this is open")
    if verdict == "wrong-accept":
        return Cause(wrong.question.rules[:1])  # of a choice none of whose options accepts
    if judged.result.outcome in ("hang", "exhausted") or judged.result.over_budget:
        return unknown("nothing is wrong with what is asked, and asking for others would use up the limits")
    try:
        return {"slice": _of_slice, "write": _of_write, "index": _of_index}[wrong.question.step](wrong)
    except SpentError:
        return unknown(f"{QUESTIONS} questions did not tell")


def must_be_refused(question: Question) -> bool:
    """Return whether there is a fault in what is asked."""
    return question.expectation.get("outcome") == "reject"


def features_of(kind: Asking, table: list[Feature[Plan]]) -> Features[Plan, Plan]:
    """Return the features that plans of a kind may have which need not be refused."""

    @lru_cache(64)
    def sound(written: str) -> bool:
        try:
            return not must_be_refused(kind.question(json.loads(written)))
        except PlanError:
            return False

    def apart(plan: Plan) -> Plan | None:
        written = json.dumps(plan)
        return json.loads(written) if sound(written) else None

    return Features(tuple(table), apart, deepcopy)


def _searched(wrong: Wrong) -> Cause:
    """Search among the features of the plan. Raises SpentError."""
    verdict = kind_of(wrong.judged.verdict)

    def right(plan: Plan) -> bool:
        again = wrong.ask(wrong.kind.question(plan))
        return kind_of(again.verdict) not in FAILING or (
            verdict == "wrong-reject" and again.result.outcome == "accept"
        )

    features = features_of(wrong.kind, TABLES[wrong.question.step])
    return Search(features, right, verb="answered rightly").cause(wrong.plan)


def _of_slice(wrong: Wrong) -> Cause:
    """Look first whether the whole tensor can be loaded: only then does the slice matter."""
    whole = reading(wrong.question)
    loaded = wrong.ask(whole) if whole is not None else None
    if whole is not None and loaded is not None and kind_of(loaded.verdict) in FAILING:
        return _of_reading(wrong, whole, loaded)
    if kind_of(wrong.judged.verdict) == "wrong-content" and aspect(wrong.question, wrong.judged) == "dtype":
        return Cause(("DTY-14",))
    cause = _searched(wrong)
    if cause.rules or loaded is None or loaded.verdict != "pass" or "choice" in wrong.question.expectation:
        return cause
    return Cause(("API-05",), "the whole tensor is loaded rightly, and this slice is not")


def reading(question: Question) -> Question | None:
    """Return the question for all that is in the file of a slice; None for a file with faults."""
    data = question.files[question.entry]
    header = explain(data, "hardened").header
    if header is None:
        return None
    expectation: dict[str, Any] = {"outcome": "accept", "content": content(data, header), "level": "must"}
    expectation["features"] = question.expectation.get("features", ())
    return replace(question, step="read", action=None, expectation=expectation)


def _of_reading(wrong: Wrong, whole: Question, loaded: StepVerdict) -> Cause:
    """Return what the file is charged with, whose tensors cannot be loaded either. Raises SpentError."""
    if kind_of(loaded.verdict) == "wrong-content":
        rule = RULE_OF_DIFFERENCE.get(difference_class(loaded.detail))
        return Cause((rule,), "the whole tensor is loaded wrongly too") if rule else unknown(loaded.detail)
    if loaded.result.outcome not in ("reject", "crash"):
        return unknown("the whole tensor cannot be loaded either")

    def accepts(data: bytes) -> bool:
        other = reading(replace(whole, files={ENTRY: data}, entry=ENTRY))
        return other is not None and wrong.ask(other).result.outcome == "accept"

    cause = cause_of_refusal(whole.files[whole.entry], accepts)
    return replace(cause, words=f"the whole tensor cannot be loaded either; {cause.words}")


def _of_write(wrong: Wrong) -> Cause:
    what = aspect(wrong.question, wrong.judged) if kind_of(wrong.judged.verdict) == "wrong-content" else ""
    if what in ("names", "dtype", "shape", "metadata"):
        return Cause((RULE_OF_ASPECT[what],))
    cause = _searched(wrong)
    if not what:
        return cause
    return replace(cause, rules=tuple(dict.fromkeys(OF_BYTES.get(rule, rule) for rule in cause.rules)))


def _of_index(wrong: Wrong) -> Cause:
    if kind_of(wrong.judged.verdict) != "wrong-content":
        return _searched(wrong)
    cause = _searched(wrong)
    if set(cause.rules) & SHARDS:
        return cause
    rule = RULE_OF_ASPECT.get(aspect(wrong.question, wrong.judged))
    return Cause((rule,)) if rule else unknown("nothing tells what in the content differs")
