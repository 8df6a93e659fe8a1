"""Runs as histories compare them: without what tells of the machine or of an adapter instead of a release."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import kind_of, worst

from ..audit.disclosure import OWN, published_run
from ..record.run import row_failures
from .misfits import adapter_misfits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from safetensors_corpus import Manifest

    from ..audit.inputs import BaselineEntry
    from ..record.run import Row, RunRecord


RACE = "concurrent"
"""Step in which threads share a file."""


def comparable_run(record: RunRecord, manifest: Manifest, known: Sequence[BaselineEntry]) -> RunRecord:
    """Return a run without what is left to chance; cases that an adapter owes an answer are *harness-error*.

    Both are found among results as published pages show them, so that what is held back has no part in it. A
    run in which there is neither is returned itself.

    Args:
        record: the run, a whole one.
        manifest: the corpus that it used.
        known: entries of its baseline.

    Raises:
        AuditError: the run has not all that is due.
    """
    shown = published_run(record, manifest, known)
    plain = [_without_chance(row) for row in shown.results]
    unknown = set() if record.name == OWN else _unknown(plain, manifest)
    if not unknown and all(a is b for a, b in zip(plain, shown.results, strict=True)):
        return record
    results = [_lost(row) if row["case"] in unknown else row for row in plain]
    # An option that such cases had a part in says nothing either.
    doubtful = {row["choice"] for row in results if row["case"] in unknown and row.get("choice")}
    choices = [row for row in shown.choices if row["choice"] not in doubtful]
    return replace(shown, results=results, choices=choices)


def _without_chance(row: Row) -> Row:
    """Return a result without the failures that two runs of one release do not share.

    They would look as if a release had changed something: amounts of time, memory or reads beyond a budget,
    and what threads do to each other, which takes an unlucky moment to be seen.
    """
    found = row_failures(row)
    kept = [f for f in found if row["step"] != RACE and not _measured(f)]
    if len(kept) == len(found):
        return row
    return {**row, "verdict": worst(f["verdict"] for f in kept), "failures": kept}


def _measured(failed: Row) -> bool:
    return failed.get("property") == "cost" and kind_of(failed["verdict"]) != "unsafe"


def _unknown(rows: Sequence[Row], manifest: Manifest) -> set[str]:
    basic = {c.id for c in manifest.cases if c.smoke and not c.heavy and c.expect and c.expect.content}
    # Results without a fault hold no words and no exception; they are no answers of an adapter.
    told = [{"detail": "", **row} for row in rows]
    return set(adapter_misfits(told, [row for row in told if row["case"] in basic]))


def _lost(row: Row) -> Row:
    return {**row, "verdict": "harness-error", "failures": [], "expected_failure": False}
