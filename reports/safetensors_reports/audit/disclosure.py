"""Public references of findings, and what published pages hold back for want of one.

Crashes, hangs and endless memory without a public report are held back by *non-interference*: of other
people's software everything is published as if such a step had passed, byte for byte, so that nobody can
tell from any number whether there are any. It holds by construction: before anything is counted, a step that
passed and a step that is held back become the same row, made of public facts alone.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from safetensors_corpus.field_bugs import field_bugs
from safetensors_corpus.judging.answer import UNSAFE
from safetensors_corpus.judging.judge import LATE, basis_of
from safetensors_corpus.judging.verdicts import effect_of, kind_of
from safetensors_reference import rule_book

from ..recommendations import NOT_KNOWN, of_verdict, to_upstream
from ..record.run import row_failures
from ..text import same_project, stable, visible
from .inputs import AuditError
from .report import Finding, ReferenceRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from safetensors_corpus import Case, Manifest
    from safetensors_corpus.manifest import Expectation

    from ..record.run import Row, RunRecord
    from .inputs import BaselineEntry, FuzzFinding
UNSAFE_FAMILIES = frozenset({"crash", "memory", "time", "race", "lifetime"})
"""Families of reported bugs that end in a crash, a hang or endless memory; others tell of none."""
OWN = "reference"
"""Name of this project's own reader, about which there is nothing to hold back."""
NO_ANSWER = "not-asked"
"""Outcome of a row that says nothing when readers are compared."""


def references_of(
    name: str, version: str, cases: Sequence[str], manifest: Manifest, known: Sequence[BaselineEntry]
) -> list[ReferenceRow]:
    """Return the public reports about some cases failed by a version of an implementation.

    They come from the corpus (``affects``) and from the issues of baselines. A report with ``current`` false
    is about other versions: it tells about the bug, but not that it is known to be there now.
    """
    found: dict[tuple[str, bool], set[str]] = {}
    for case_id in cases:
        case = manifest.by_id.get(case_id)
        for bug in case.affects if case else ():
            if same_project(name, bug["project"]):
                key = (bug["reference"], affects_version(bug["versions"], version))
                found.setdefault(key, set()).add(case_id)
    for entry in known:
        if entry.issue.startswith("https://"):
            for case_id in set(entry.cases).intersection(cases):
                found.setdefault((entry.issue, True), set()).add(case_id)
    return [
        ReferenceRow(reference, current, sorted(ids)) for (reference, current), ids in sorted(found.items())
    ]


def affects_version(versions: str, version: str) -> bool:
    """Return whether a version is affected; versions that nobody wrote down may all be."""
    if not versions.strip():
        return True
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except ValueError:  # of numbers with too many digits, too
        return False


def redact(finding: Finding) -> Finding:
    """Return a finding for published pages.

    One in other people's software is shown as far as it is public: with the cases that a public report is
    about, and its evidence when the case shown is one of them; else verdict and rule only.
    """
    if finding.own:
        return finding
    told = {case for ref in finding.references if ref.current for case in ref.cases}
    # A contradiction lies between cases: the one shown for it may be of those that say nothing.
    whole = finding.verdict != "choice-inconsistent"
    if whole and finding.evidence is not None and finding.evidence.case in told:
        return replace(finding, cases=sorted(told), fuzz=[])
    rule = finding.rule or ""
    return replace(
        finding,
        title=f"{stable(finding.implementation, 80)}: {finding.verdict}, {rule or NOT_KNOWN}",
        # How it ends, why, and what to mend would tell where to look.
        outcome=None,
        weaknesses=[],
        recommendation=to_upstream(of_verdict(finding.verdict, rule), finding.upstream),
        got="",
        expected="",
        cases=sorted(told),
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
    """Return a run as published pages may show it; one of this project's own reader as it is.

    Args:
        record: the run.
        manifest: the corpus that it used.
        known: entries of its baseline.
        reported: whether what is unsafe is shown where a public report tells of it. Beside other projects it
            is not: else the one with the more open tracker would look like the worse one.

    Raises:
        AuditError: the run has not all that is due.
    """
    if record.implementation["name"] == OWN:
        return record
    _demand_all(record)
    harmful = [is_unsafe(row) for row in record.results]
    bad = {row["case"] for row, harm in zip(record.results, harmful, strict=True) if harm}
    told = frozenset(_told(record, bad, manifest, known) if reported else ())
    if (manifest.digest, told) in record.shown:
        return record.shown[manifest.digest, told]
    # What the cases of a choice say together comes from clean answers alone; without any it says nothing.
    choices = [row for row in record.choices if kind_of(row["verdict"]) in ("choice", "choice-inconsistent")]
    taken = {str(row["choice"]): row["verdict"].partition(":")[2] for row in choices}
    quiet = [
        row["case"] not in told if harm else kind_of(row["verdict"]) in ("pass", "choice")
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
    # Words of the run on what went wrong may be about anything.
    shown = dataclasses.replace(record, choices=choices, results=results, problems=[])
    record.shown[manifest.digest, told] = shown
    return shown


def is_unsafe(row: Row) -> bool:
    """Tell whether a result of a record ended in a crash, a hang or endless memory, whatever else it is."""
    if row["outcome"] in UNSAFE or kind_of(row["verdict"]) == "unsafe":
        return True
    return any(kind_of(failed["verdict"]) == "unsafe" for failed in row.get("failures", ()))


def _demand_all(record: RunRecord) -> None:
    """Raise AuditError for a run without a result for all that is due.

    A run that is stopped after many hangs would tell of them by what it lacks, and one that was interrupted
    or filtered looks the same.
    """
    lacks = "lines that cannot be read" if record.left_out else ""
    lacks = lacks or ("no end" if record.truncated else "only a part of the cases" if record.partial else "")
    lacks = lacks or (f"no result of {record.not_run:,} cases that are due" if record.not_run else "")
    if lacks:
        raise AuditError(
            f"{visible(record.label, 80)}: the run has {lacks}, and published pages need whole runs: what is "
            "missing could tell what is held back; run all cases again, with --max-hangs 0"
        )


def _silent(row: Row, case: Case | None, taken: Mapping[str, str], profile: str | None) -> Row:
    """Return what published pages are made of for a step without a fault: public facts, no measurement.

    When readers are compared it gives the expected answer, of a choice that of the option that is told; where
    none is told, no answer.
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
    """Return what opening a file counts whose reading shows no fault: late at worst, not accepting.

    Runs charge who opens a broken file and dies at reading it with accepting, which would tell of the end.
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
    """Return the findings of fuzzing that published pages may count: nothing *unsafe* in others' software."""
    return [item for item in items if not any(_ends_badly(item, who) for who in _others(item))]


def _others(item: FuzzFinding) -> Iterable[str]:
    got = item.document.got
    return (who for who in got if not same_project(who.partition("==")[0], OWN))


def _ends_badly(item: FuzzFinding, who: str) -> bool:
    answer = item.document.got[who].replace(",", ":").partition(":")[0].strip()
    return answer in UNSAFE or kind_of(item.document.verdict) == "unsafe"


def _told(record: RunRecord, bad: set[str], manifest: Manifest, known: Sequence[BaselineEntry]) -> set[str]:
    name, version = record.name, record.version
    bugs = field_bugs()
    told = {case for entry in known if _says_so(entry) for case in entry.cases}
    for case_id in bad - told:
        case = manifest.by_id.get(case_id)
        for bug in case.affects if case else ():
            about = bugs.get(bug["bug"])
            if (
                about is not None
                and about.family in UNSAFE_FAMILIES
                and same_project(name, bug["project"])
                and bug["versions"].strip()  # not written down is no claim about this one
                and affects_version(bug["versions"], version)
            ):
                told.add(case_id)
    return told & bad


def _says_so(entry: BaselineEntry) -> bool:
    return entry.issue.startswith("https://") and "unsafe" in {kind_of(v) for v in entry.steps.values()}
