"""Known bugs in the histories: the lines that a trend adds to them, and the trends that they contain.

A line says which verdicts a version got in the cases that show publicly reported bugs of its program.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from msgspec import UNSET
from packaging.version import Version

from safetensors_corpus.judging.verdicts import VERDICTS, kind_of
from safetensors_corpus.typed import MisfitError, typed

from ..audit.disclosure import is_unsafe, redact_open
from ..audit.inputs import AuditError, load_json
from ..record.run import Row, RunRecord
from ..text import COMMIT, version_key, visible
from .ledger import FORMAT, CorpusName, Ledger, Line, in_order
from .trend import CaseInfo, KnownBug, TrendDocument, VersionRun, notes_of, trend, turn_of

SHOWN_SINCE = "2026.11.2"
"""The first corpus for which trends list all bugs that a version shows; earlier trends list only changes."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""An implementation, followed by a colon and the entry point if there is one."""
_SOURCE = re.compile(r"(https://[A-Za-z0-9._~/-]+)?")
"""The address of a repository; it becomes a link on a page."""


def published_version(
    version: str,
    record: RunRecord,
    misfits: Mapping[str, str],
    notes: Mapping[str, CaseInfo],
    manifest: Mapping[str, Any],
) -> tuple[RunRecord, Mapping[str, str]]:
    """Replace *unsafe* results without a public report with passes, before anything is counted."""
    options = {case["id"]: case.get("expect", {}).get("options", ()) for case in manifest["cases"]}

    def is_held(row: Row) -> bool:
        return is_unsafe(row) and not any(bug.affects(version) for bug in notes[row["case"]].bugs)

    hidden = {row["case"] for row in record.results if is_held(row)}

    def published(row: Row) -> Row:
        if not is_held(row):
            return redact_open(row) if row["case"] in hidden and row["step"] == "open" else row
        # Passing a case of a choice means taking an option. This is the same option for all versions and
        # never a bug.
        buggy = {bug.option for bug in notes[row["case"]].bugs}
        taken = (f"choice:{option}" for option in options.get(row["case"], ()) if option not in buggy)
        return {**row, "verdict": next(taken, "pass"), "detail": "", "failures": []}

    # If the adapter does not fit a hidden case, that would reveal the crash too.
    fitting = {case: text for case, text in misfits.items() if case not in hidden}
    return dataclasses.replace(record, results=list(map(published, record.results))), fitting


def lines_of_trend(document: TrendDocument, manifest: Mapping[str, Any]) -> list[Line]:
    """Return the verdicts of the cases that show publicly reported bugs, as one line for each version.

    Unsafe results without a report are kept, because ``trend_of`` refuses them.
    """
    notes = notes_of(manifest, document.implementation)
    verdicts = [
        {
            shown.case: shown.verdict
            for shown in row.shows
            if kind_of(shown.verdict) == "unsafe"
            or any(bug.affects(row.version) for bug in notes[shown.case].bugs if bug.id in shown.bugs)
        }
        for row in document.versions
    ]
    steps = [*zip(pairwise(verdicts), document.passages, strict=True)]
    for (before, after), passage in steps:
        for change in passage.changes:
            if change.bugs:
                before[change.case], after[change.case] = change.before, change.after
    # A verdict that did not change is the same in both versions if both ran the case.
    for (before, after), passage in steps:
        if not passage.only_before:
            after.update(before | after)
    for (before, after), passage in reversed(steps):
        if not passage.only_after:
            before.update(after | before)
    return [
        Line(
            history=FORMAT,
            program=document.implementation.partition(":")[0],
            entry=document.implementation,
            version=visible(row.version, 80),
            date="",
            suite=visible(document.suite, 80),
            corpus=CorpusName(visible(document.corpus, 80), ""),
            asked=0,
            counts={},
            bugs=dict(sorted(shown.items())),
            source=document.source,
        )
        for row, shown in zip(document.versions, verdicts, strict=True)
    ]


def trends(ledgers: Mapping[str, Ledger], manifest: Mapping[str, Any]) -> list[TrendDocument]:
    """Return the trend of each entry point that has verdicts of cases of known bugs. Raises AuditError."""
    homes = {
        line.entry: ledger for ledger in ledgers.values() for line in ledger.lines if line.bugs is not UNSET
    }
    if not homes:
        raise AuditError("the histories contain no trends; add one with: stc trophies --add FILE")
    order = sorted(homes, key=lambda entry: entry.replace(":", "-") + "~")
    return [trend_of(entry, homes[entry], manifest) for entry in order]


def trend_of(entry: str, ledger: Ledger, manifest: Mapping[str, Any]) -> TrendDocument:
    """Return the verdicts over the newest corpus as a trend of all versions.

    Raises AuditError for lines that do not fit the corpus, and for unsafe results without a public report.
    """
    lines = [line for line in ledger.lines if line.entry == entry and line.bugs is not UNSET]
    notes = notes_of(manifest, entry, only={case for line in lines for case in line.verdicts})
    newest = max((line.corpus.version for line in lines), key=version_key)
    for line in lines:
        for case, verdict in line.verdicts.items():
            bugs = notes[case].bugs if case in notes else ()
            where = f"{visible(line.label, 100)}, case {visible(case, 100)}: "
            if kind_of(verdict) == "unsafe" and not any(bug.affects(line.version) for bug in bugs):
                raise AuditError(
                    f"{where}the result is unsafe, and no bug with a public report is recorded for it; "
                    "create the trend again with: stc trend --public"
                )
            if not bugs and line.corpus.version == newest:
                raise AuditError(f"{where}the corpus lists no bug of this program; run stc trend again")
    shown = in_order(line for line in lines if line.corpus.version == newest)
    runs = [VersionRun(line.version, line.verdicts) for line in shown]
    last, listed = shown[-1], version_key(newest) >= version_key(SHOWN_SINCE)
    is_shown = KnownBug.affects if listed else lambda *_: False
    return trend(entry, last.suite, newest, runs, notes, source=last.source, is_shown=is_shown)


def load_trend(path: Path, manifest: Mapping[str, Any]) -> TrendDocument:
    try:
        document = typed(load_json(path, "the output of stc trend --public --json"), TrendDocument)
    except MisfitError as err:
        raise AuditError(f"{path}: {err}") from err
    notes = notes_of(manifest, document.implementation)
    if fault := next(chain(_faults(document), _corpus_faults(document, notes)), ""):
        raise AuditError(f"{path}: {visible(fault, 300)}")
    return document


def _faults(document: TrendDocument) -> Iterator[str]:
    if not _NAME.fullmatch(document.implementation) or len(document.implementation) > 100:
        yield (
            "implementation must be a name of letters, digits, dots and hyphens, which may be followed "
            "by a colon and an entry point"
        )
    if not _SOURCE.fullmatch(document.source):
        yield "source must be the https:// address of a repository"
    ran = [row.version for row in document.versions if row.ran]
    if document.interrupted or not ran or len(ran) != len(document.versions):
        yield "not every version was run; run stc trend again"
    if not all(map(COMMIT.fullmatch, ran)):
        try:
            [Version(v) for v in ran]
        except ValueError as err:
            yield f"{err}: all versions must be releases, or all must be full commit hashes"
    if [(p.before, p.after) for p in document.passages] != list(pairwise(ran)):
        yield "the passages do not match the versions"
    verdicts = {shown.verdict for row in document.versions for shown in row.shows}
    for verdict in verdicts.union(*((change.before, change.after) for change in document.changes)):
        if kind_of(verdict) not in VERDICTS or visible(verdict) != verdict:
            yield f"{verdict} is not a verdict"
    for change in document.changes:
        if turn_of(change.before, change.after) != change.turn:
            yield (
                f"{change.case} is marked as {change.turn}, but its verdict changed from {change.before} "
                f"to {change.after}"
            )


def _corpus_faults(document: TrendDocument, notes: Mapping[str, CaseInfo]) -> Iterator[str]:
    changed = [(c.case, {row.bug for row in c.bugs}, True) for c in document.changes]
    shown = [(s.case, set(s.bugs), False) for row in document.versions for s in row.shows]
    for name, bugs, every in [*changed, *shown]:
        if name not in notes:
            yield f"{name} is not a case of the corpus; run stc trend again"
        elif not bugs <= (own := {bug.id for bug in notes[name].bugs}) or (every and bugs != own):
            yield f"the corpus lists other bugs for {name}; run stc trend again"
