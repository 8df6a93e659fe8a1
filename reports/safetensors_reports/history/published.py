"""Published trends: reduce a trend to what may be published, and read and check the published ones."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from packaging.version import Version

from safetensors_corpus.judging.verdicts import kind_of
from safetensors_corpus.typed import MisfitError, typed
from safetensors_reference.source import read_whole

from ..audit.disclosure import is_unsafe, redact_open
from ..audit.inputs import AuditError
from ..known_failures import MAX_BYTES
from ..record.run import Row
from ..text import COMMIT, bug_affects, same_project, visible
from .trend import TURNS, CaseInfo, ShownRow, TrendDocument, VersionRow, VersionRun, turn_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""An implementation, followed by a colon and the entry point if there is one; it becomes a file name."""
_SOURCE = re.compile(r"(https://[A-Za-z0-9._~/-]+)?")
"""The address of a repository; it becomes a link on a page."""


def file_name(implementation: str) -> str:
    return implementation.replace(":", "-") + ".json"


def published_version(
    run: VersionRun, notes: Mapping[str, CaseInfo], manifest: Mapping[str, Any]
) -> VersionRun:
    """Replace *unsafe* results without a public report with passes, before anything is counted."""
    if run.record is None:
        return run
    table = {bug["id"]: bug for bug in manifest["field_bugs"]}
    options = {case["id"]: case.get("expect", {}).get("options", ()) for case in manifest["cases"]}
    bugs = {case: note.bugs for case, note in notes.items()}

    def passed(row: Row) -> Row:
        # Passing a case of a choice means taking an option. This is the same option for all versions and
        # never a bug.
        buggy = {bug.option for bug in bugs.get(row["case"], ())}
        taken = (f"choice:{option}" for option in options.get(row["case"], ()) if option not in buggy)
        return {**row, "verdict": next(taken, "pass"), "detail": "", "failures": []}

    held = [
        is_unsafe(row) and not _reported([bug.id for bug in bugs.get(row["case"], ())], run.version, table)
        for row in run.record.results
    ]
    hidden = {row["case"] for row, hide in zip(run.record.results, held, strict=True) if hide}
    results = [
        passed(row) if hide else redact_open(row) if row["case"] in hidden and row["step"] == "open" else row
        for row, hide in zip(run.record.results, held, strict=True)
    ]
    # If the adapter does not fit a hidden case, that would reveal the crash too.
    misfits = {case: text for case, text in run.misfits.items() if case not in hidden}
    return dataclasses.replace(run, record=dataclasses.replace(run.record, results=results), misfits=misfits)


def published_trend(document: TrendDocument, manifest: Mapping[str, Any]) -> TrendDocument:
    """Return the changes that show publicly reported bugs. Raises AuditError for other unsafe results."""
    table = {bug["id"]: bug for bug in manifest["field_bugs"]}
    seen = [(row.version, s.case, s.verdict, s.bugs) for row in document.versions for s in row.shows]
    for passage in document.passages:
        for change in passage.changes:
            bugs = tuple(bug.bug for bug in change.bugs)
            seen.append((passage.before, change.case, change.before, bugs))
            seen.append((passage.after, change.case, change.after, bugs))
    for version, case, verdict, bugs in seen:
        if bugs and kind_of(verdict) == "unsafe" and not _reported(bugs, version, table):
            raise AuditError(
                f"the trend contains an unsafe result in version {visible(version, 60)}, case "
                f"{visible(case, 100)}, for which no bug with a public report is recorded; create the "
                "trend again with: stc trend --public"
            )
    passages = []
    for passage in document.passages:
        changes = tuple(replace(change, detail="") for change in passage.changes if change.bugs)
        turns = Counter(change.turn for change in changes)
        passages.append(replace(passage, counts={turn: turns[turn] for turn in TURNS}, changes=changes))
    versions = tuple(
        replace(row, counts={}, remarks=(), shows=_recorded(row, table)) for row in document.versions
    )
    return replace(document, versions=versions, passages=tuple(passages))


def _reported(bugs: Iterable[str], version: str, table: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(bug_affects(table[bug], version) for bug in bugs if bug in table)


def _recorded(row: VersionRow, table: Mapping[str, Mapping[str, Any]]) -> tuple[ShownRow, ...]:
    kept = (
        replace(case, bugs=tuple(bug for bug in case.bugs if _reported([bug], row.version, table)))
        for case in row.shows
    )
    return tuple(case for case in kept if case.bugs)


def load_trends(folder: Path, manifest: Mapping[str, Any]) -> list[TrendDocument]:
    out = []
    for path in sorted(folder.glob("*.json")):
        document = load_trend(path, manifest)
        if path.name != file_name(document.implementation):
            raise AuditError(
                f"{path}: this trend is about {visible(document.implementation, 60)}, so it belongs in "
                f"{visible(file_name(document.implementation), 60)}"
            )
        if document != published_trend(document, manifest):
            raise AuditError(
                f"{path}: the trend contains data that must not be published; write it with: stc "
                "trophies --add FILE"
            )
        out.append(document)
    if not out:
        raise AuditError(f"{folder}: there are no trends; add one with: stc trophies --add FILE")
    return out


def load_trend(path: Path, manifest: Mapping[str, Any]) -> TrendDocument:
    try:
        document = typed(json.loads(read_whole(path, MAX_BYTES)), TrendDocument)
    except OSError as err:
        raise AuditError(str(err)) from err
    except MisfitError as err:
        raise AuditError(f"{path}: {err}") from err
    except (ValueError, RecursionError) as err:
        raise AuditError(f"{path}: not valid JSON ({visible(str(err), 120)}); it may be truncated") from err
    fault = _fault(document) or _corpus_fault(document, manifest)
    if fault:
        raise AuditError(f"{path}: {visible(fault, 300)}")
    return document


def _fault(document: TrendDocument) -> str:
    if not _NAME.fullmatch(document.implementation) or len(document.implementation) > 100:
        return (
            "implementation must be a name of letters, digits, dots and hyphens, which may be followed "
            "by a colon and an entry point"
        )
    if not _SOURCE.fullmatch(document.source):
        return "source must be the https:// address of a repository"
    ran = [row.version for row in document.versions if row.ran]
    if document.interrupted or len(ran) != len(document.versions):
        return "not every version was run; run stc trend again"
    if not all(map(COMMIT.fullmatch, ran)):
        try:
            [Version(v) for v in ran]
        except ValueError as err:
            return f"{err}: all versions must be releases, or all must be full commit hashes"
    if [(p.before, p.after) for p in document.passages] != list(pairwise(ran)):
        return "the passages do not match the versions"
    for change in document.changes:
        if turn_of(change.before, change.after) != change.turn:
            return (
                f"{change.case} is marked as {change.turn}, but its verdict changed from {change.before} "
                f"to {change.after}"
            )
    return ""


def _corpus_fault(document: TrendDocument, manifest: Mapping[str, Any]) -> str:
    cases = {case["id"]: case for case in manifest["cases"]}
    changed = [(c.case, {row.bug for row in c.bugs}, True) for c in document.changes]
    shown = [(s.case, set(s.bugs), False) for row in document.versions for s in row.shows]
    for name, bugs, every in [*changed, *shown]:
        if name not in cases:
            return f"{name} is not a case of the corpus; run stc trend again"
        rows = cases[name]["affects"]
        own = {row["bug"] for row in rows if same_project(document.implementation, row["project"])}
        if not bugs <= own or (every and bugs != own):
            return f"the corpus lists other bugs for {name}; run stc trend again"
    return ""
