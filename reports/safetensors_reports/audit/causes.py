"""Likely causes as a report tells them: everything of own runs, on published pages what findings tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reference import rule_book

from ..causes import Cause, causes, command
from ..causes.failures import failures
from ..text import stable
from .disclosure import OWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from safetensors_corpus import Manifest

    from ..record.run import Row, RunRecord

CauseRow = dict[str, Any]


def cause_rows(
    label: str, record: RunRecord, manifest: Manifest, found: Sequence[dict[str, Any]], *, public: bool
) -> list[CauseRow]:
    """Return the causes of one run, the worst first.

    Args:
        label: of the implementation within the report.
        record: the run; for published pages without what they hold back altogether.
        manifest: the corpus that it used.
        found: all findings as the report has them, for published pages without what is not public.
        public: tell no more than the findings do: causes of the cases that they name, and of every finding
            that is held back its verdict and rule.
    """
    if not public or record.implementation["name"] == OWN:
        return [_row(cause, record) for cause in causes(record, manifest)]
    mine = [f for f in found if f["implementation"] == label]
    told = [f for f in mine if not f["redacted"]]
    rows = [row for row in record.results if not failures(row) or any(_names(f, row) for f in told)]
    shown = [_row(cause, record) for cause in causes(rows, manifest)]
    held = [_held(f) for f in mine if f["redacted"] and f["case_count"]]
    order = [f["verdict"] for f in mine]
    return sorted([*shown, *held], key=lambda row: _place(row, order))


def _names(finding: dict[str, Any], row: Row) -> bool:
    """Tell whether a finding that is public names the case of a row and its verdict."""
    same = finding["verdict"] in (row["verdict"], kind_of(row["verdict"]))
    return same and row["case"] in finding["cases"]


def _place(row: CauseRow, order: list[str]) -> tuple[Any, ...]:
    verdict = row["verdict"] if row["verdict"] in order else kind_of(row["verdict"])
    place = order.index(verdict) if verdict in order else len(order)
    return place, row["redacted"], -row["case_count"], row["rule"], row["what"]


def _row(cause: Cause, record: RunRecord) -> CauseRow:
    return {
        "verdict": cause.verdict,
        "verdicts": dict(cause.verdicts),
        "basis": cause.basis,
        "rule": cause.rule,
        "what": stable(cause.what, 200),
        "said": stable(cause.said, 200),
        "case_count": len(cause.cases),
        "cases": list(cause.cases),
        "steps": list(cause.steps),
        "example": cause.example,
        "reproducer": command(record.header, cause),
        "mend": cause.mend,
        "expected_failure": cause.known,
        "redacted": False,
    }


def _held(finding: dict[str, Any]) -> CauseRow:
    rule = rule_book().rules[finding["rule"]]
    return {
        "verdict": finding["verdict"],
        "verdicts": {finding["verdict"]: finding["case_count"]},
        "basis": None,
        "rule": rule.id,
        "what": f"{rule.id} ({rule.title})",
        "said": "",
        "case_count": finding["case_count"],
        "cases": [],
        "steps": [],
        "example": None,
        "reproducer": None,
        "mend": finding["recommendation"],
        "expected_failure": finding["expected_failure"],
        "redacted": True,
    }
