"""Public reports about a finding, and what is held back of findings that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..project_names import same_project
from .recommendations import NOT_KNOWN, of_area
from .stable_text import stable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from safetensors_corpus import Manifest

    from .inputs import Known


def references_of(
    name: str, version: str, cases: Sequence[str], manifest: Manifest, known: Sequence[Known]
) -> list[dict[str, Any]]:
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
        {"reference": reference, "current": current, "cases": sorted(ids)}
        for (reference, current), ids in sorted(found.items())
    ]


def concerns(versions: str, version: str) -> bool:
    """Return whether a version is affected; versions that nobody wrote down may all be."""
    if not versions.strip():
        return True
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


def redact(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding for published pages.

    One in other people's software is shown as far as it is public: with the cases that a public report is
    about, and its evidence when the case shown is one of them; else verdict and rule only.
    """
    if finding["own"]:
        return finding
    told = {case for ref in finding["references"] if ref["current"] for case in ref["cases"]}
    if told and finding["evidence"]["case"] in told:
        return {**finding, "cases": sorted(told), "fuzz": []}
    rule = finding["rule"] or ""
    return {
        **finding,
        "title": f"{stable(finding['implementation'], 80)}: {finding['verdict']}, {rule or NOT_KNOWN}",
        # How it ends, why, and what to mend would tell where to look.
        "outcome": None,
        "weaknesses": [],
        "recommendation": of_area(rule),
        "got": "",
        "expected": "",
        "cases": sorted(told),
        "fuzz": [],
        "steps": [],
        "evidence": None,
        "fingerprint": None,
        "reproducer": None,
        "redacted": True,
    }
