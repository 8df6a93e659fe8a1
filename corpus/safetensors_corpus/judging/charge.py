"""Choose the rule that a failure names.

This is the rule that is certainly broken, which is not always the first rule of the case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from safetensors_reference.rules.book import rule_book

from ..manifest import ANY_VALID_FILE, Case, Expectation


@dataclass(frozen=True)
class Demand:
    """The expectation for an input outside the corpus. It has the attributes of a ``Case``."""

    rules: tuple[str, ...]
    expect: Expectation | None
    level: str = "must"
    features: tuple[str, ...] = ()
    kind: str = "read"
    choice: str | None = None
    options: Mapping[str, Expectation] = field(default_factory=dict)


def first_rule(demand: Case | Demand) -> str:
    return demand.rules[0] if demand.rules else ""


SLICES = "API-05"
DTYPES = "DTY-01"
OUTPUT = "WRT-01"
"""Rule that requires a written file to be valid and to contain the given tensors."""
LARGE_DIMENSION = 2**31
"""Smallest dimension for which a reader may reject a file (SHP-08)."""

_RULES_OF_HARM: Mapping[tuple[str, ...], str] = {
    ("FRM-01", "FRM_HEADER_OVER_LIMIT"): "FRM-06",
    ("FRM-02", "FRM_HEADER_OVER_LIMIT"): "FRM-06",
    ("OFF-13", "OFF_OUT_OF_BOUNDS"): "OFF-04",
}
"""Maps a parsing rule and the fault that results from breaking it to the rule that forbids the fault."""
_RULES_OF_ACCEPTANCE: Mapping[str, tuple[str, str]] = {
    "FRM-02": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "FRM-05": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "FRM-06": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "OFF-13": ("OFF_OUT_OF_BOUNDS", "OFF-04"),
    **dict.fromkeys(("DTY-05", "DTY-10", "SHP-03", "SHP-04", "SHP-05"), ("OFF_SIZE_MISMATCH", "OFF-05")),
    "LIM-05": ("OFF_OVERLAP", "OFF-06"),
    "ENT-05": ("ENT_MISSING_FIELD", "ENT-03"),
}
"""Maps a rule on parsing or arithmetic to the fault that a mistake causes and the rule that forbids it."""
FORBIDDING = frozenset({*(f"HDR-{n:02}" for n in range(9, 14)), "OFF-06", "OFF-07", "OFF-08", "OFF-12"})
"""Rules that only forbid files. A reader that rejects a valid file does not break them."""
_DTYPE_RULES = frozenset({"DTY-05", "DTY-08", "DTY-09", "DTY-10", "DTY-12"})
"""Rules on the elements of a dtype. A reader that rejects a valid file may not support the dtype at all."""


def rule_of_harm(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by crashing, hanging or exhausting a resource."""
    first = first_rule(demand)
    codes = demand.expect.codes[:1] if demand.expect is not None else ()
    return _RULES_OF_HARM.get((first, *codes), first) if demand.kind == "read" else first


def rule_of_acceptance(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by accepting a broken file.

    This is the rule whose violation the reader certainly missed.
    """
    first = first_rule(demand)
    code, rule = _RULES_OF_ACCEPTANCE.get(first, ("", ""))
    codes = demand.expect.codes if demand.expect is not None else ()
    return rule if demand.kind in ("read", "resource") and code in codes else first


def rule_of_refusal(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by rejecting a valid file."""
    first = first_rule(demand)
    if demand.kind == "slice":
        return first if first.startswith("API") else SLICES
    if demand.kind not in ("read", "resource"):
        return first
    if demand.kind == "resource" and demand.level == "should":
        return ANY_VALID_FILE  # only the size is unusual, and the rules of the case are about cost
    if first in _DTYPE_RULES:
        return DTYPES
    metadata = _content(demand).get("metadata") or {}
    # Some loaders reject every metadata map that does not contain the key ``format``.
    any_file = first in FORBIDDING or (metadata and "format" not in metadata)
    return ANY_VALID_FILE if any_file else first


def refusal_levels(demand: Case | Demand) -> set[str]:
    """Return the levels of the rules that may have caused the rejection of a valid file."""
    parts = demand.rules if first_rule(demand) == ANY_VALID_FILE else ()
    dimensions = chain.from_iterable(row["shape"] for row in _content(demand).get("tensors", ()))
    large = ("SHP-08",) if any(n >= LARGE_DIMENSION for n in dimensions) else ()
    shared = {"may"} if demand.kind in ("write", "sharded") and first_rule(demand) == SHARED else set()
    return {demand.level, *(rule_book().rules[rule].level for rule in (*parts, *large)), *shared}


SHARED = "WRT-16"
"""Rule on tensors that share memory. A writer may reject all such tensors."""


def _content(demand: Case | Demand) -> Mapping[str, Any]:
    return (demand.expect.content if demand.expect is not None else None) or {}
