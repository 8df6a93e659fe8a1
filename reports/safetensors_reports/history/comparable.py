"""Remove failures that the machine or the adapter caused, so that releases can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from safetensors_corpus import Manifest
from safetensors_corpus.judging.verdicts import kind_of, worst

from ..audit.disclosure import OWN, published_run
from ..audit.inputs import BaselineEntry
from ..record.run import Row, RunRecord, row_failures
from .misfits import adapter_misfits

RACE = "concurrent"


def comparable_run(record: RunRecord, manifest: Manifest, known: Sequence[BaselineEntry]) -> RunRecord:
    """Return a published run without random failures and adapter misfits. Raises AuditError."""
    shown = published_run(record, manifest, known)
    plain = [_without_chance(row) for row in shown.results]
    unknown: set[str] = set()
    if record.name != OWN:
        basic = {c.id for c in manifest.cases if c.smoke and not c.heavy and c.expect and c.expect.content}
        # Published results without a fault have no message or exception.
        rows = [{"detail": "", **row} for row in plain]
        unknown = set(adapter_misfits(rows, [row for row in rows if row["case"] in basic]))
    if not unknown and all(a is b for a, b in zip(plain, shown.results, strict=True)):
        return record
    lost = {"verdict": "harness-error", "failures": [], "expected_failure": False}
    results = [{**row, **lost} if row["case"] in unknown else row for row in plain]
    # If such cases helped to determine an option, the option is unknown too.
    doubtful = {row["choice"] for row in results if row["case"] in unknown and row.get("choice")}
    choices = [row for row in shown.choices if row["choice"] not in doubtful]
    return replace(shown, results=results, choices=choices)


def _without_chance(row: Row) -> Row:
    failures = row_failures(row)
    kept = [
        f
        for f in failures
        if row["step"] != RACE and (f.get("property") != "cost" or kind_of(f["verdict"]) == "unsafe")
    ]
    if len(kept) == len(failures):
        return row
    return {**row, "verdict": worst(f["verdict"] for f in kept), "failures": kept}
