"""Helpers of the tests of histories: lines, and runs of versions."""

from __future__ import annotations

from typing import Any

from safetensors_reports.audit.build import build_report
from safetensors_reports.history.ledger import CorpusName, FailureRow, Line, lines_of
from safetensors_reports.record.run import RunRecord

from ..samples import corpus

OLD, NEW = CorpusName("2026.10", "0" * 16), CorpusName("2026.11", "1" * 16)


def fails(rule: str, cases: int, *named: str, verdict: str = "wrong-accept") -> FailureRow:
    return FailureRow(rule, verdict, cases, named)


def line(version: str, *failures: FailureRow, **more: Any) -> Line:
    """Return a line of a made-up program; its counts are those of its failures."""
    counts: dict[str, int] = {}
    for row in failures:
        counts[row.verdict] = counts.get(row.verdict, 0) + row.cases
    fields: dict[str, Any] = {
        "history": 1,
        "program": "lib",
        "entry": "lib",
        "date": "2026-11-21",
        "suite": "2026.11.0",
        "corpus": NEW,
        "steps": ("open", "read"),
        "asked": 100,
        "counts": counts,
    }
    return Line(version=version, failures=failures, **(fields | more))


def lines(*records: RunRecord, **more: Any) -> list[Line]:
    """Return the lines of the published report of some runs."""
    return lines_of(build_report(records, corpus(), public=True, **more))
