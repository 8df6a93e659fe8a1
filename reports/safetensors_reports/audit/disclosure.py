"""Public references of findings, and the results that published pages withhold for lack of one.

Unreported crashes, hangs and unbounded memory use are withheld by *non-interference*: for other people's
software, everything is published as if such a step had passed, byte for byte, so that no number reveals
whether there are any. This holds by construction: before anything is counted, a passed step and a withheld
step become the same row, made of public facts only.
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
from safetensors_corpus.manifest import Expectation
from safetensors_reference import rule_book

from ..recommendations import NOT_KNOWN, of_verdict, to_upstream
from ..record.run import Row, RunRecord, row_failures
from ..text import same_project, stable, visible
from ..versions import affects_version
from .inputs import AuditError, BaselineEntry, FuzzFinding
from .report import Finding, ReferenceRow

UNSAFE_FAMILIES = frozenset({"crash", "memory", "time", "race", "lifetime"})
"""Families of reported bugs that end in a crash, a hang or unbounded memory use."""
OWN = "reference"
"""Name of this project's own reader, for which nothing is withheld."""
NO_ANSWER = "not-asked"


def references_of(
    name: str, version: str, cases: Sequence[str], manifest: Manifest, known: Sequence[BaselineEntry]
) -> list[ReferenceRow]:
    """Return the public reports on failed cases; ``current`` ones are about the tested version."""
    references: dict[tuple[str, bool], set[str]] = {}
    for case_id in cases:
        case = manifest.by_id.get(case_id)
        for bug in case.affects if case else ():
            if same_project(name, bug["project"]):
                key = (bug["reference"], affects_version(bug["versions"], version))
                references.setdefault(key, set()).add(case_id)
    for entry in known:
        if entry.issue.startswith("https://"):
            for case_id in set(entry.cases).intersection(cases):
                references.setdefault((entry.issue, True), set()).add(case_id)
    return [
        ReferenceRow(reference, current, sorted(ids))
        for (reference, current), ids in sorted(references.items())
    ]


def redact(finding: Finding) -> Finding:
    """Return a finding for published pages.

    Findings about other people's software show the cases with a public report, and evidence if it belongs to
    one of them; otherwise only verdict and rule.
    """
    if finding.own:
        return finding
    reported = {case for ref in finding.references if ref.current for case in ref.cases}
    # A contradiction is between cases: the one shown for it may not be the reported one.
    single = finding.verdict != "choice-inconsistent"
    if single and finding.evidence is not None and finding.evidence.case in reported:
        return replace(finding, cases=sorted(reported), fuzz=[])
    rule = finding.rule or ""
    return replace(
        finding,
        title=f"{stable(finding.implementation, 80)}: {finding.verdict}, {rule or NOT_KNOWN}",
        # Outcome, cause and specific advice would reveal where to look.
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
    """Return a run as published pages may show it; runs of this project's own reader stay unchanged.

    With ``reported``, unsafe results that a public report describes are shown. Comparisons of projects do
    without: they would make a project with a more open tracker look worse. Raises AuditError for an
    incomplete run.
    """
    if record.implementation["name"] == OWN:
        return record
    _demand_all(record)
    harmful = [is_unsafe(row) for row in record.results]
    bad = {row["case"] for row, harm in zip(record.results, harmful, strict=True) if harm}
    disclosed = frozenset(_disclosed(record, bad, manifest, known) if reported else ())
    if (manifest.digest, disclosed) in record.shown:
        return record.shown[manifest.digest, disclosed]
    # Only clean answers determine the option of a choice.
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
    # Problems of the run may be about anything.
    shown = dataclasses.replace(record, choices=choices, results=results, problems=[])
    record.shown[manifest.digest, disclosed] = shown
    return shown


def is_unsafe(row: Row) -> bool:
    if row["outcome"] in UNSAFE or kind_of(row["verdict"]) == "unsafe":
        return True
    return any(kind_of(failed["verdict"]) == "unsafe" for failed in row.get("failures", ()))


def _demand_all(record: RunRecord) -> None:
    """Raise AuditError for an incomplete run: missing cases could reveal hangs."""
    lacks = "lines that cannot be read" if record.left_out else ""
    lacks = lacks or ("no end" if record.truncated else "only a part of the cases" if record.partial else "")
    lacks = lacks or (f"no result for {record.not_run:,} cases" if record.not_run else "")
    if lacks:
        raise AuditError(
            f"{visible(record.label, 80)}: the run has {lacks}, and published pages need complete runs: "
            "missing cases could reveal what is withheld; run all cases again, with --max-hangs 0"
        )


def _silent(row: Row, case: Case | None, taken: Mapping[str, str], profile: str | None) -> Row:
    """Return the published row of a step without a fault: public facts, no measurements.

    For comparisons it contains the expected answer, for a choice that of the published option; without one,
    no answer.
    """
    demand = None if case is None else _demanded(case, taken, profile)
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
    """Return the result of opening a file whose reading shows no fault: at worst late, never accepting.

    Runs charge an implementation that opens a broken file and crashes on reading with accepting, which would
    reveal the crash.
    """
    late = {"verdict": "late-reject", "rule": LATE, "basis": basis_of(LATE), "detail": "accepted at open"}
    failures = [
        {**late, "property": "outcome"} if effect_of(failed["verdict"]) == "accept" else failed
        for failed in row_failures(row)
    ]
    if effect_of(row["verdict"]) != "accept":
        return row
    return {**row, **late, "failures": failures}


def _demanded(case: Case, taken: Mapping[str, str], profile: str | None) -> Expectation | None:
    if case.choice is None:
        return case.expect
    option = rule_book().choices[case.choice].expected(profile) or taken.get(case.choice, "")
    return case.options.get(option)


def published_fuzz_findings(items: Sequence[FuzzFinding]) -> list[FuzzFinding]:
    return [
        item
        for item in items
        if not any(
            _ends_badly(item, selector)
            for selector in item.document.got
            if not same_project(selector.partition("==")[0], OWN)
        )
    ]


def _ends_badly(item: FuzzFinding, selector: str) -> bool:
    answer = item.document.got[selector].replace(",", ":").partition(":")[0].strip()
    return answer in UNSAFE or kind_of(item.document.verdict) == "unsafe"


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
                and bug["versions"].strip()  # unrecorded versions claim nothing about this one
                and affects_version(bug["versions"], version)
            ):
                disclosed.add(case_id)
    return disclosed & bad
