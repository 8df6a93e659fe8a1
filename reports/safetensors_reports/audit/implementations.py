"""The part of a report about each implementation: how far it got, its counts, its word and its badge."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from safetensors_corpus.judging.verdicts import fails, kind_of
from safetensors_reference import rule_book

from ..causes import Cause, causes, command
from ..causes.failures import failures
from ..record.device_checks import CHECKS, STATUSES
from ..text import stable
from .disclosure import OWN
from .report import (
    CLEAN,
    MISSES,
    NOT_TOLD,
    UNKNOWN,
    WORDS,
    CauseRow,
    ChoiceRow,
    DeviceRow,
    ExpectedRow,
    Finding,
    Implementation,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from safetensors_corpus import Manifest

    from ..record.run import Row, RunRecord
    from .inputs import BaselineEntry

MAX_PROBLEMS = 20
"""Most problems of a run that a report repeats."""
APART = {"write": "wrong-write", "sharded": "wrong-write", "lifecycle": "wrong-race"}


def implementation(
    label: str,
    record: RunRecord,
    known: Sequence[BaselineEntry],
    manifest: Manifest,
    found: Sequence[Finding],
    *,
    public: bool,
) -> Implementation:
    """Return who was tested, how far the run got and what it counted, *not run* and *not asked* apart.

    Published pages name only those expected failures that have a public report, and no problems of the run.
    Of other people's software they do not count what passed, nor promises of a device that hold: cases
    without a fault are all the others (``tally``), those that are held back among them.

    Args:
        label: of the implementation within the report.
        record: the run; for published pages without what they hold back altogether.
        known: entries of its baseline.
        manifest: the corpus that it used.
        found: all findings as the report has them, for published pages without what is not public.
        public: whether it is for published pages.
    """
    who, header = record.implementation, record.header
    withheld = public and who["name"] != OWN
    counts = record.counts()
    contradictions = record.inconsistent_choices()
    expected = _expected(record, known)
    if public:
        expected = [row for row in expected if row.issue.startswith("https://")]
    if withheld:
        expected = [_shown(row) for row in expected]
        counts.pop("pass", None)
    return Implementation(
        label=label,
        selector=record.selector,
        name=record.name,
        version=record.version,
        language=who.get("language") or "unknown",
        steps=list(who.get("steps", [])),
        lacks=sorted(set(who.get("lacks", []))),
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
        choices=_choices(record),
        baseline=header.get("baseline"),
        expected_failures=expected,
        expected_failing=record.expected_failures,
        problems=[] if public else [stable(text, 300) for text in record.problems[:MAX_PROBLEMS]],
        device=UNSET if withheld else _device(record),
        causes=_causes(label, record, manifest, found, public=public),
    )


def _device(record: RunRecord) -> DeviceRow | UnsetType:
    name = record.header.get("device")
    rows = [row for row in record.results if row["step"] == "device"]
    if name is None or not rows:
        return UNSET
    told = Counter((check["name"], check["status"]) for row in rows for check in row.get("checks", ()))
    checks = {check: {status: told[check, status] for status in STATUSES} for check in CHECKS}
    return DeviceRow(stable(name, 40), len(rows), checks)


def _set_apart(record: RunRecord, counts: Mapping[str, int]) -> dict[str, int]:
    """Return changed counts where bad verdicts were seen only in what a writer made, or of changing files.

    A wrong file harms its next reader, and a file that is cut while it is open takes somebody with access to
    it: neither is what *wrong content* and *unsafe* say to whoever loads models.
    """
    out: dict[str, int] = {}
    for kind in ("unsafe", "wrong-content"):
        steps = {row["step"] for row in record.blamed if kind_of(row["verdict"]) == kind}
        if counts.get(kind) and steps and steps <= APART.keys():
            out[kind] = 0
            out |= {APART[step]: 1 for step in steps}
    return out


def _word(
    record: RunRecord, counts: Mapping[str, int], contradictions: Mapping[str, str], *, public: bool
) -> str:
    held_back = public and record.implementation["name"] != OWN
    if held_back:
        # If the crashes that somebody has reported gave the word, the program with the more open tracker
        # would look worse than one that crashes more.
        counts = {**counts, "unsafe": 0}
    counts = {**counts, **_set_apart(record, counts)}
    for kind, word in WORDS.items():
        if counts.get(kind) or (kind == "choice-inconsistent" and contradictions):
            checks = record.implementation.get("kind") in ("validator", "scanner")
            return MISSES if checks and kind == "wrong-accept" else word
    # Not run, or lost to the adapter, is never shown as passed.
    if record.not_run or counts.get("harness-error") or record.truncated or not record.cases:
        return UNKNOWN
    return NOT_TOLD if held_back else CLEAN


def _choices(record: RunRecord) -> list[ChoiceRow]:
    out = []
    for row in sorted(record.choices, key=lambda r: str(r["choice"])):
        kind, _, option = row["verdict"].partition(":")
        taken = option if kind == "choice" else ""
        out.append(ChoiceRow(row["choice"], taken, kind))
    return out


def _expected(record: RunRecord, known: Sequence[BaselineEntry]) -> list[ExpectedRow]:
    """Return the expected failures by name: those of the record, and what the baseline says of each.

    ``state`` tells what became of the entry: ``fails`` as listed, ``passes`` now, or has ``no verdict``.
    """
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


def _shown(row: ExpectedRow) -> ExpectedRow:
    """Return an expected failure of published pages: that it fails, or nothing.

    What fails no longer may have passed, or ended in a way that is held back.
    """
    return row if row.state == "fails" else replace(row, state="no verdict", verdict=None)


def _causes(
    label: str, record: RunRecord, manifest: Manifest, found: Sequence[Finding], *, public: bool
) -> list[CauseRow]:
    """Return the causes of one run, the worst first.

    Published pages tell no more than the findings do: causes of the cases that they name, and of every
    finding that is held back its verdict and rule.
    """
    if not public or record.implementation["name"] == OWN:
        return [_cause(cause, record) for cause in causes(record, manifest)]
    mine = [f for f in found if f.implementation == label]
    told = [f for f in mine if not f.redacted]
    rows = [row for row in record.results if not failures(row) or any(_names(f, row) for f in told)]
    shown = [_cause(cause, record) for cause in causes(rows, manifest)]
    held = [_held(f) for f in mine if f.redacted and f.case_count]
    order = [f.verdict for f in mine]
    return sorted([*shown, *held], key=lambda row: _place(row, order))


def _names(finding: Finding, row: Row) -> bool:
    same = finding.verdict in (row["verdict"], kind_of(row["verdict"]))
    return same and row["case"] in finding.cases


def _place(row: CauseRow, order: list[str]) -> tuple[int, bool, int, str, str]:
    verdict = row.verdict if row.verdict in order else kind_of(row.verdict)
    place = order.index(verdict) if verdict in order else len(order)
    return place, row.redacted, -row.case_count, row.rule, row.what


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
        expected_failure=cause.known,
        redacted=False,
    )


def _held(finding: Finding) -> CauseRow:
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
