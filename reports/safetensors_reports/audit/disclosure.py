"""Withhold unreported dangerous results from published pages.

Unreported crashes, hangs and unbounded memory use are withheld by *non-interference*: for other people's
software, the published pages are byte for byte the same as if such a step had passed. No number on these
pages reveals whether any step was withheld. The code guarantees this by replacing passed steps and withheld
steps with the same row before it counts anything. That row contains only public facts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from safetensors_corpus import Case, Manifest
from safetensors_corpus.field_bugs import field_bugs
from safetensors_corpus.judging.answer import UNSAFE
from safetensors_corpus.judging.judge import LATE, basis_of
from safetensors_corpus.judging.verdicts import effect_of, kind_of
from safetensors_reference import rule_book

from ..record.run import Row, RunRecord, row_failures
from ..severity import NOT_KNOWN, of_verdict, to_upstream
from ..text import affects_version, same_project, stable, visible
from .inputs import AuditError, BaselineEntry, FuzzFinding
from .report import Finding

UNSAFE_FAMILIES = frozenset({"crash", "memory", "time", "race", "lifetime"})
"""Families of reported bugs that result in a crash, a hang or unbounded memory use."""
OWN = "reference"
"""Name of this project's own reader. None of its results are withheld."""
NO_ANSWER = "not-asked"


def redact(finding: Finding) -> Finding:
    """Return a finding as published pages may show it, with details only if a public report has them."""
    if finding.own:
        return finding
    reported = {case for ref in finding.references if ref.current for case in ref.cases}
    # A contradiction involves several cases, and the case shown may not be the reported one.
    single = finding.verdict != "choice-inconsistent"
    if single and finding.evidence is not None and finding.evidence.case in reported:
        return replace(finding, cases=sorted(reported), fuzz=[])
    rule = finding.rule or ""
    return replace(
        finding,
        title=f"{stable(finding.implementation, 80)}: {finding.verdict}, {rule or NOT_KNOWN}",
        # The outcome, the cause and specific advice would reveal where to look.
        outcome=None,
        weaknesses=[],
        recommendation=to_upstream(of_verdict(finding.verdict, rule), finding.upstream),
        got="",
        expected="",
        cases=sorted(reported),
        fuzz=[],
        steps=[],
        evidence=None,
        fingerprint=None,
        reproducer=None,
        redacted=True,
    )


def published_run(
    record: RunRecord, manifest: Manifest, known: Sequence[BaselineEntry], *, reported: bool = True
) -> RunRecord:
    """Return a run as published pages may show it; runs of this project's own reader are returned unchanged.

    With ``reported``, unsafe results that a public report describes are shown. Comparisons of projects leave
    them out, because a project with a more open tracker would otherwise look worse. Raises AuditError for an
    incomplete run.
    """
    if record.implementation["name"] == OWN:
        return record
    _demand_all(record)
    harmful = [is_unsafe(row) for row in record.results]
    bad = {row["case"] for row, harm in zip(record.results, harmful, strict=True) if harm}
    disclosed = _disclosed(record, bad, manifest, known) if reported else set()
    # Only steps that ended without a problem determine the option of a choice.
    choices = [row for row in record.choices if kind_of(row["verdict"]) in ("choice", "choice-inconsistent")]
    taken = {str(row["choice"]): row["verdict"].partition(":")[2] for row in choices}
    quiet = [
        row["case"] not in disclosed if harm else kind_of(row["verdict"]) in ("pass", "choice")
        for row, harm in zip(record.results, harmful, strict=True)
    ]
    read = {row["case"] for row, q in zip(record.results, quiet, strict=True) if q and row["step"] == "read"}
    results = [
        _silent(row, manifest.by_id.get(row["case"]), taken, record.header["profile"])
        if silent
        else redact_open(row)
        if row["case"] in read and row["step"] == "open"
        else row
        for row, silent in zip(record.results, quiet, strict=True)
    ]
    # The problems of a run may refer to anything, including withheld results.
    return dataclasses.replace(record, choices=choices, results=results, problems=[])


def is_unsafe(row: Row) -> bool:
    if row["outcome"] in UNSAFE or kind_of(row["verdict"]) == "unsafe":
        return True
    return any(kind_of(failed["verdict"]) == "unsafe" for failed in row.get("failures", ()))


def _demand_all(record: RunRecord) -> None:
    """Raise AuditError for an incomplete run, because missing cases could reveal hangs."""
    faults = {
        "lines that cannot be read": record.left_out,
        "no end": record.truncated,
        "only some of the cases": record.partial,
        f"no result for {record.not_run:,} cases": record.not_run,
    }
    if lacks := next((words for words, present in faults.items() if present), ""):
        raise AuditError(
            f"{visible(record.label, 80)}: the run has {lacks}, but published pages need complete runs "
            "because missing cases could reveal what is withheld; run all cases again with --max-hangs 0"
        )


def _silent(row: Row, case: Case | None, taken: Mapping[str, str], profile: str | None) -> Row:
    """Return the published row of a step without a fault, with the expected answer and no measurements."""
    demand = case.expect if case is not None else None
    if case is not None and case.choice is not None:
        option = rule_book().choices[case.choice].expected(profile) or taken.get(case.choice, "")
        demand = case.options.get(option)
    return {
        "type": "result",
        "case": row["case"],
        "step": row["step"],
        "outcome": NO_ANSWER if demand is None else demand.outcome,
        "verdict": "pass",
        "rules": list(case.rules if case is not None else row.get("rules") or ()),
        "choice": case.choice if case is not None else row.get("choice"),
        "content": None if demand is None else demand.content,
    }


def redact_open(row: Row) -> Row:
    """Replace a wrongly accepted ``open`` with a late rejection.

    An accepted ``open`` next to a withheld ``read`` would reveal a crash on reading.
    """
    if effect_of(row["verdict"]) != "accept":
        return row
    late = {"verdict": "late-reject", "rule": LATE, "basis": basis_of(LATE), "detail": "accepted at open"}
    failures = [
        {**late, "property": "outcome"} if effect_of(failed["verdict"]) == "accept" else failed
        for failed in row_failures(row)
    ]
    return {**row, **late, "failures": failures}


def published_fuzz_findings(items: Sequence[FuzzFinding]) -> list[FuzzFinding]:
    return [
        item
        for item in items
        if not any(
            kind_of(item.document.verdict) == "unsafe" or item.document.outcome(selector) in UNSAFE
            for selector in item.document.got
            if not same_project(selector.partition("==")[0], OWN)
        )
    ]


def _disclosed(
    record: RunRecord, bad: set[str], manifest: Manifest, known: Sequence[BaselineEntry]
) -> set[str]:
    name, version = record.name, record.version
    bugs = field_bugs()
    disclosed = {
        case
        for entry in known
        if entry.issue.startswith("https://") and "unsafe" in map(kind_of, entry.steps.values())
        for case in entry.cases
    }
    for case_id in bad - disclosed:
        case = manifest.by_id.get(case_id)
        for bug in case.affects if case else ():
            about = bugs.get(bug["bug"])
            if (
                about is not None
                and about.family in UNSAFE_FAMILIES
                and same_project(name, bug["project"])
                # a bug without recorded versions says nothing about the tested version
                and bug["versions"].strip()
                and affects_version(bug["versions"], version)
            ):
                disclosed.add(case_id)
    return disclosed & bad
