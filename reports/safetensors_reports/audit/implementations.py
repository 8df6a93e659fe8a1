"""Report rows of the implementations: completeness, counts, overall verdict and causes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from safetensors_corpus import Manifest
from safetensors_corpus.judging.verdicts import fails, kind_of
from safetensors_reference import rule_book

from ..causes.cause import Cause, causes, command
from ..causes.failures import failures
from ..labels import CLEAN, MISSES, NOT_TOLD, UNKNOWN, WORDS
from ..record.device_checks import CHECKS, STATUSES
from ..record.run import RunRecord
from ..text import stable
from .disclosure import OWN
from .inputs import BaselineEntry
from .report import (
    CauseRow,
    ChoiceRow,
    DeviceRow,
    ExpectedRow,
    Finding,
    Implementation,
)

MAX_PROBLEMS = 20
SET_APART = {"write": "wrong-write", "sharded": "wrong-write", "lifecycle": "wrong-race"}


def implementation(
    label: str,
    record: RunRecord,
    known: Sequence[BaselineEntry],
    manifest: Manifest,
    findings: Sequence[Finding],
    *,
    public: bool,
) -> Implementation:
    """Build the report row of an implementation.

    Cases that were *not run* and cases outside a full run (*not asked*) are counted separately. For other
    people's software, published rows count neither passed cases nor the guarantees that a device loader
    keeps.
    """
    info, header = record.implementation, record.header
    withheld = public and info["name"] != OWN
    counts = record.counts()
    contradictions = record.inconsistent_choices()
    expected = _expected(record, known)
    if public:
        expected = [row for row in expected if row.issue.startswith("https://")]
    if withheld:
        # A case that no longer fails may have passed, or its new outcome may be withheld.
        expected = [
            row if row.state == "fails" else replace(row, state="no verdict", verdict=None)
            for row in expected
        ]
        counts.pop("pass", None)
    rows = sorted(record.choices, key=lambda r: str(r["choice"]))
    parts = [(row["choice"], *row["verdict"].partition(":")) for row in rows]
    return Implementation(
        label=label,
        selector=record.selector,
        name=record.name,
        version=record.version,
        language=info.get("language") or "unknown",
        steps=list(info.get("steps", [])),
        lacks=sorted(set(info.get("lacks", []))),
        suite=header["suite"],
        corpus=header["corpus"]["digest"],
        profile=header["profile"],
        limits=header.get("limits") or {},
        ended="truncated" if record.truncated else "partial" if record.partial else "complete",
        word=_word(record, counts, contradictions, public=public),
        due=header["corpus"]["cases"],
        cases=record.cases,
        counts=dict(sorted(counts.items())),
        contradictions=len(contradictions),
        not_run=record.not_run,
        not_asked=dict(sorted(header["corpus"].get("left_out", {}).items())),
        choices=[
            ChoiceRow(name, option if kind == "choice" else "", kind) for name, kind, _, option in parts
        ],
        baseline=header.get("baseline"),
        expected_failures=expected,
        expected_failing=len(record.expected_cases),
        problems=[] if public else [stable(text, 300) for text in record.problems[:MAX_PROBLEMS]],
        device=UNSET if withheld else _device(record),
        causes=_causes(label, record, manifest, findings, public=public),
    )


def _device(record: RunRecord) -> DeviceRow | UnsetType:
    name = record.header.get("device")
    rows = [row for row in record.results if row["step"] == "device"]
    if name is None or not rows:
        return UNSET
    counts = Counter((check["name"], check["status"]) for row in rows for check in row.get("checks", ()))
    checks = {check: {status: counts[check, status] for status in STATUSES} for check in CHECKS}
    return DeviceRow(stable(name, 40), len(rows), checks)


def _set_apart(record: RunRecord, counts: Mapping[str, int]) -> dict[str, int]:
    """Label cases about written or changing files separately, because they do not harm a loader."""
    out: dict[str, int] = {}
    for kind in ("unsafe", "wrong-content"):
        steps = {row["step"] for row in record.blamed if kind_of(row["verdict"]) == kind}
        if counts.get(kind) and steps and steps <= SET_APART.keys():
            out[kind] = 0
            out |= {SET_APART[step]: 1 for step in steps}
    return out


def _word(
    record: RunRecord, counts: Mapping[str, int], contradictions: Mapping[str, str], *, public: bool
) -> str:
    held_back = public and record.implementation["name"] != OWN
    if held_back:
        # Reported crashes must not affect the overall verdict. Otherwise a program with a more open tracker
        # would look worse than one that crashes more often.
        counts = {**counts, "unsafe": 0}
    counts = {**counts, **_set_apart(record, counts)}
    for kind, word in WORDS.items():
        if counts.get(kind) or (kind == "choice-inconsistent" and contradictions):
            checks = record.implementation.get("kind") in ("validator", "scanner")
            return MISSES if checks and kind == "wrong-accept" else word
    # Never show cases as passed if they did not run or if the adapter failed.
    if record.not_run or counts.get("harness-error") or record.truncated or not record.cases:
        return UNKNOWN
    return NOT_TOLD if held_back else CLEAN


def _expected(record: RunRecord, known: Sequence[BaselineEntry]) -> list[ExpectedRow]:
    verdicts = record.case_verdicts
    listed = record.expected_cases
    entries = {case: entry for entry in reversed(known) for case in entry.cases}
    out = []
    for case in sorted(listed | entries.keys()):
        entry, verdict = entries.get(case), verdicts.get(case)
        state: Literal["fails", "passes", "no verdict"] = "no verdict"
        if verdict is not None:
            state = "fails" if case in listed or fails(verdict) else "passes"
        out.append(
            ExpectedRow(
                case=case,
                verdict=verdict,
                state=state,
                why=entry.why if entry else "",
                issue=entry.issue if entry else "",
                review_by=(entry.review_by or None) if entry else None,
            )
        )
    return out


def _causes(
    label: str, record: RunRecord, manifest: Manifest, findings: Sequence[Finding], *, public: bool
) -> list[CauseRow]:
    """Return the causes, worst first; published causes reveal no more than the findings do."""
    if not public or record.implementation["name"] == OWN:
        return [_cause(cause, record) for cause in causes(record, manifest)]
    mine = [f for f in findings if f.implementation == label]
    disclosed = [f for f in mine if not f.redacted]
    rows = [
        row
        for row in record.results
        if not failures(row)
        or any(
            f.verdict in (row["verdict"], kind_of(row["verdict"])) and row["case"] in f.cases
            for f in disclosed
        )
    ]
    visible = dataclasses.replace(record, results=rows, choices=[])
    shown = [_cause(cause, record) for cause in causes(visible, manifest)]
    withheld = [_withheld_cause(f) for f in mine if f.redacted and f.case_count]
    order = [f.verdict for f in mine]

    def rank(row: CauseRow) -> tuple[int, bool, int, str, str]:
        verdict = row.verdict if row.verdict in order else kind_of(row.verdict)
        place = order.index(verdict) if verdict in order else len(order)
        return place, row.redacted, -row.case_count, row.rule, row.what

    return sorted([*shown, *withheld], key=rank)


def _cause(cause: Cause, record: RunRecord) -> CauseRow:
    return CauseRow(
        verdict=cause.verdict,
        verdicts=dict(cause.verdicts),
        basis=cause.basis,
        rule=cause.rule,
        what=stable(cause.what, 200),
        said=stable(cause.said, 200),
        case_count=len(cause.cases),
        cases=list(cause.cases),
        steps=list(cause.steps),
        example=cause.example,
        reproducer=command(record.header, cause),
        mend=cause.advice,
        expected_failure=cause.is_expected,
        redacted=False,
    )


def _withheld_cause(finding: Finding) -> CauseRow:
    rule = rule_book().rules[finding.rule or ""]
    return CauseRow(
        verdict=finding.verdict,
        verdicts={finding.verdict: finding.case_count},
        basis=None,
        rule=rule.id,
        what=f"{rule.id} ({rule.title})",
        said="",
        case_count=finding.case_count,
        cases=[],
        steps=[],
        example=None,
        reproducer=None,
        mend=finding.recommendation,
        expected_failure=finding.expected_failure,
        redacted=True,
    )
