"""Remove failures that the machine or the adapter caused, so that releases can be compared.

If an older release lacks a function that the adapter calls, every case fails, and the next release seems to
fix many bugs. There are two signs: an error about a missing name or a different signature, or the same answer
to files that are so basic that every reader accepts them. These basic files are the control.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from safetensors_corpus import Manifest
from safetensors_corpus.judging.verdicts import fails, kind_of, worst

from ..audit.disclosure import OWN, published_run
from ..audit.inputs import BaselineEntry
from ..record.run import Row, RunRecord, row_failures

_MISSING = {"ImportError", "ModuleNotFoundError", "NameError", "ReferenceError"}
_OF_DATA = re.compile(
    r"'(NoneType|bool|bytes|dict|float|int|list|str|tuple)' object has no attribute"
    r"|module 'numpy' has no attribute"
)
"""Errors of parsers that trust their input, and of libraries that use a name that NumPy has removed."""
_OTHER_FORM = re.compile(
    r"unexpected keyword argument|takes .*positional argument|missing \d+ required .*argument"
    r"|is not a (function|constructor)\b"
)


def comparable_run(record: RunRecord, manifest: Manifest, known: Sequence[BaselineEntry]) -> RunRecord:
    """Return a published run without random failures and adapter misfits. Raises AuditError."""
    shown = published_run(record, manifest, known)
    plain = [_without_chance(row) for row in shown.results]
    unknown = misfits_of(plain, manifest) if record.name != OWN else {}
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
    kept = [f for f in failures if f.get("property") != "cost" or kind_of(f["verdict"]) == "unsafe"]
    if row["step"] == "concurrent" or row["case"].startswith("contended/"):
        kept = []
    if len(kept) == len(failures):
        return row
    return {**row, "verdict": worst(f["verdict"] for f in kept), "failures": kept}


def misfits_of(published: Iterable[Row], manifest: Manifest) -> dict[str, str]:
    """Return the cases of a published run that have no usable result."""
    basic = {c.id for c in manifest.cases if c.smoke and not c.heavy and c.expect and c.expect.content}
    # Published results without a fault have no message or exception.
    rows = [{"detail": "", **row} for row in published]
    return adapter_misfits(rows, [row for row in rows if row["case"] in basic])


def adapter_misfits(rows: Iterable[Row], control: Iterable[Row]) -> dict[str, str]:
    """Return the cases without a usable result; ``control`` contains the results for the control files."""
    failed = [
        row
        for row in control
        if fails(row["verdict"], strict=True)
        and not (row["step"] in ("write", "sharded") and row["outcome"] == "accept")
    ]
    # If failures have no message, compare their step and outcome.
    bad = ({_answer(row) for row in failed} | {(row["step"], row["outcome"]) for row in failed}) - {None}
    out: dict[str, str] = {}
    for row in rows:
        supported = kind_of(row["verdict"]) != "unsupported"
        if supported and (names_missing_api(row) or _answer(row) in bad):
            text = row.get("message") or row["detail"].rstrip(": ") or row["outcome"]
            out.setdefault(row["case"], str(text))
    return out


def names_missing_api(row: Row) -> bool:
    kind, message = row.get("exception") or "", row.get("message") or ""
    if row["outcome"] == "accept":
        return False
    if kind == "AttributeError":
        return "has no attribute" in message and not _OF_DATA.search(message)
    return kind in _MISSING or (kind == "TypeError" and bool(_OTHER_FORM.search(message)))


def _answer(row: Row) -> tuple[str, ...] | None:
    """Return a key that identifies an answer, or None if the answer is correct.

    The key of an exception does not contain the step.
    """
    if row["outcome"] == "accept":
        return (row["step"], "wrong-content") if kind_of(row["verdict"]) == "wrong-content" else None
    message = re.sub(r"\d+", "#", row.get("message") or "")
    if row.get("exception"):
        return (row["outcome"], row["exception"], message)
    return (row["step"], row["outcome"], message) if message else (row["step"], row["outcome"])
