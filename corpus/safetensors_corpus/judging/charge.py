"""The rule that an outcome is charged to: the one surely broken, where the first rule of a case is not it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from safetensors_reference.rules.book import rule_book

from ..manifest import ANY_VALID_FILE, Case
from .demand import Demand, first_rule

SLICES = "API-05"
DTYPES = "DTY-01"
OUTPUT = "WRT-01"
"""The rule that a written file is valid and holds what was given."""
LARGE_DIMENSION = 2**31
"""Dimension from which a reader may refuse a file (SHP-08): smaller ones fit every integer."""

_RULES_OF_HARM: Mapping[tuple[str, ...], str] = {
    ("FRM-01", "FRM_HEADER_OVER_LIMIT"): "FRM-06",
    ("FRM-02", "FRM_HEADER_OVER_LIMIT"): "FRM-06",
    ("OFF-13", "OFF_OUT_OF_BOUNDS"): "OFF-04",
}
"""Rule on how a number is read, and the fault that a file has by it -> the rule on that fault."""
_RULES_OF_ACCEPTANCE: Mapping[str, tuple[str, str]] = {
    "FRM-02": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "FRM-05": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "FRM-06": ("FRM_HEADER_PAST_EOF", "FRM-04"),
    "OFF-13": ("OFF_OUT_OF_BOUNDS", "OFF-04"),
    **dict.fromkeys(("DTY-05", "DTY-10", "SHP-03", "SHP-04", "SHP-05"), ("OFF_SIZE_MISMATCH", "OFF-05")),
    "LIM-05": ("OFF_OVERLAP", "OFF-06"),
    "ENT-05": ("ENT_MISSING_FIELD", "ENT-03"),
}
"""Rule on how something is read or computed -> a fault that such a file has, and the rule on that fault."""
FORBIDDING = frozenset({*(f"HDR-{n:02}" for n in range(9, 14)), "OFF-06", "OFF-07", "OFF-08", "OFF-12"})
"""Rules that only say what is no valid file: a reader that refuses a valid one breaks none of them."""
_DTYPE_RULES = frozenset({"DTY-05", "DTY-08", "DTY-09", "DTY-10", "DTY-12"})
"""Rules on the elements of a dtype: a reader that refuses a valid file may not know its dtype at all."""


def rule_of_harm(demand: Case | Demand) -> str:
    """Return the rule that a crash, a hang or exhaustion is charged to.

    Where a case is about a trap, such as a wrong byte order, nobody knows that the reader fell into it: it
    surely went on in spite of the fault behind it.
    """
    first = first_rule(demand)
    codes = demand.expect.codes[:1] if demand.expect is not None else ()
    return _RULES_OF_HARM.get((first, *codes), first) if demand.kind == "read" else first


def rule_of_acceptance(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by accepting a broken file.

    A reader that computes everything rightly and compares nothing accepts the file as well, so acceptance
    shows no more than that the fault was not noticed.
    """
    first = first_rule(demand)
    code, rule = _RULES_OF_ACCEPTANCE.get(first, ("", ""))
    codes = demand.expect.codes if demand.expect is not None else ()
    return rule if demand.kind in ("read", "resource") and code in codes else first


def rule_of_refusal(demand: Case | Demand) -> str:
    """Return the rule that a reader breaks by refusing a valid file."""
    first = first_rule(demand)
    if demand.kind == "slice":
        return first if first.startswith("API") else SLICES
    if demand.kind not in ("read", "resource"):
        return first
    if demand.kind == "resource" and demand.level == "should":
        return ANY_VALID_FILE  # its size alone is unusual, and the rules are on what it may cost
    if first in _DTYPE_RULES:
        return DTYPES
    metadata = _content(demand).get("metadata") or {}
    # Some loaders refuse every metadata map without a format, whatever else the file is about.
    any_file = first in FORBIDDING or (metadata and "format" not in metadata)
    return ANY_VALID_FILE if any_file else first


def refusal_levels(demand: Case | Demand) -> set[str]:
    """Return the levels of the rules that the refusal of a valid file may be about.

    The refusal of a file that combines things does not tell which part was meant, so that it is only as
    grave as that of the weakest.
    """
    parts = demand.rules if first_rule(demand) == ANY_VALID_FILE else ()
    large = ("SHP-08",) if any(n >= LARGE_DIMENSION for n in _dimensions(demand)) else ()
    shared = {"may"} if demand.kind in ("write", "sharded") and first_rule(demand) == SHARED else set()
    return {demand.level, *(rule_book().rules[rule].level for rule in (*parts, *large)), *shared}


SHARED = "WRT-16"
"""The rule on tensors that share memory, which lets a writer refuse all of them."""


def _dimensions(demand: Case | Demand) -> Iterator[int]:
    for row in _content(demand).get("tensors", ()):
        yield from row["shape"]


def _content(demand: Case | Demand) -> Mapping[str, Any]:
    return (demand.expect.content if demand.expect is not None else None) or {}
