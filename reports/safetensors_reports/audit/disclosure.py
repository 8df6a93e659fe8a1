"""Public references of findings, and what published pages hold back for want of one.

Crashes, hangs and endless memory without a public report are held back altogether: such cases are taken out
of a run before anything is counted. They go into one number with the cases that were never asked for, so that
nobody can tell from a page whether there are any.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from safetensors_corpus.field_bugs import field_bugs
from safetensors_corpus.judging.verdicts import kind_of

from ..recommendations import NOT_KNOWN, of_area
from ..text import same_project, stable
from .report import Finding, ReferenceRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from safetensors_corpus import Manifest

    from ..record.run import RunRecord
    from .inputs import FuzzFinding, Known
NOT_TOLD = "not asked for, or held back"
"""The one reason that published pages give for cases without a result of other people's software."""
UNSAFE_FAMILIES = frozenset({"crash", "memory", "time", "race", "lifetime"})
"""Families of reported bugs that end in a crash, a hang or endless memory; others tell of none."""
OWN = "reference"
"""Name of this project's own reader, about which there is nothing to hold back."""


def references_of(
    name: str, version: str, cases: Sequence[str], manifest: Manifest, known: Sequence[Known]
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
                key = (bug["reference"], concerns(bug["versions"], version))
                found.setdefault(key, set()).add(case_id)
    for entry in known:
        if entry.issue.startswith("https://"):
            for case_id in set(entry.cases).intersection(cases):
                found.setdefault((entry.issue, True), set()).add(case_id)
    return [
        ReferenceRow(reference, current, sorted(ids)) for (reference, current), ids in sorted(found.items())
    ]


def concerns(versions: str, version: str) -> bool:
    """Return whether a version is affected; versions that nobody wrote down may all be."""
    if not versions.strip():
        return True
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


def redact(finding: Finding) -> Finding:
    """Return a finding for published pages.

    One in other people's software is shown as far as it is public: with the cases that a public report is
    about, and its evidence when the case shown is one of them; else verdict and rule only.
    """
    if finding.own:
        return finding
    told = {case for ref in finding.references if ref.current for case in ref.cases}
    if finding.evidence is not None and finding.evidence.case in told:
        return replace(finding, cases=sorted(told), fuzz=[])
    rule = finding.rule or ""
    return replace(
        finding,
        title=f"{stable(finding.implementation, 80)}: {finding.verdict}, {rule or NOT_KNOWN}",
        # How it ends, why, and what to mend would tell where to look.
        outcome=None,
        weaknesses=[],
        recommendation=of_area(rule),
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


def shown_run(record: RunRecord, manifest: Manifest, known: Sequence[Known]) -> RunRecord:
    """Return a run as published pages may show it; one of this project's own reader as it is."""
    if record.implementation["name"] == OWN:
        return record
    unsafe = {row["case"] for row in record.results if kind_of(row["verdict"]) == "unsafe"}
    held = unsafe - _told(record, unsafe, manifest, known)
    out = copy.copy(record)
    out.results = [row for row in record.results if row["case"] not in held]
    # A choice none of whose cases is left would tell that there were some.
    left = {row.get("choice") for row in out.results}
    out.choices = [row for row in record.choices if row["choice"] in left]
    corpus = dict(record.header["corpus"])
    corpus["cases"] -= len(held)
    corpus["left_out"] = {NOT_TOLD: sum(corpus.get("left_out", {}).values()) + len(held)}
    out.header = {**record.header, "corpus": corpus}
    return out


def shown_fuzz(items: Sequence[FuzzFinding]) -> list[FuzzFinding]:
    """Return the findings of fuzzing that published pages may count: nothing *unsafe* in others' software."""
    return [
        item
        for item in items
        if kind_of(item.document.verdict) != "unsafe"
        or all(same_project(selector.partition("==")[0], OWN) for selector in item.document.got)
    ]


def _told(record: RunRecord, unsafe: set[str], manifest: Manifest, known: Sequence[Known]) -> set[str]:
    """Return the unsafe cases of which everybody can read already that this version is unsafe there."""
    name, version = record.implementation["name"], record.implementation["version"]
    bugs = field_bugs()
    told = {case for entry in known if _says_so(entry) for case in entry.cases}
    for case_id in unsafe - told:
        case = manifest.by_id.get(case_id)
        for bug in case.affects if case else ():
            about = bugs.get(bug["bug"])
            if (
                about is not None
                and about.family in UNSAFE_FAMILIES
                and same_project(name, bug["project"])
                and bug["versions"].strip()  # not written down is no claim about this one
                and concerns(bug["versions"], version)
            ):
                told.add(case_id)
    return told & unsafe


def _says_so(entry: Known) -> bool:
    return entry.issue.startswith("https://") and "unsafe" in {kind_of(v) for v in entry.steps.values()}
