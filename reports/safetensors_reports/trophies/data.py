"""The files that the page of trophies is made of, read and checked; trends made fit to be published."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from packaging.version import Version

from safetensors_corpus.judging.verdicts import kind_of
from safetensors_corpus.typed import MisfitError, typed
from safetensors_reference.source import read_whole

from ..audit.disclosure import is_unsafe, redact_open
from ..baseline import MAX_BYTES, BaselineError, read_baseline, read_toml
from ..history.trend import (
    TURNS,
    CaseInfo,
    KnownBug,
    ShownRow,
    TrendDocument,
    VersionRow,
    VersionRun,
    turn_of,
)
from ..record.run import Row
from ..text import same_project, visible
from .model import COMMIT, Expectations, affects

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""An implementation, with the entry behind a colon; it becomes the name of a file."""
_SOURCE = re.compile(r"(https://[A-Za-z0-9._~/-]+)?")
"""A repository; it becomes a link on a page."""
IMPLEMENTATIONS = Path("conformance") / "safetensors_conformance" / "implementations"


class TrophyError(Exception):
    """Data that cannot be used; the text names the file, what is wrong, and what to do."""


def file_name(implementation: str) -> str:
    return implementation.replace(":", "-") + ".json"


def published_trend(document: TrendDocument, manifest: Mapping[str, Any]) -> TrendDocument:
    """Return what is published of a trend: the changes that show a bug reported in public, and their number.

    Left out are changes without a report, counts and remarks that tell of such, and what is wrong in the
    version that fails (``detail``), for that may hold paths and amounts. So are cases that show a bug in a
    version that is not recorded with it, for they may fail by another.

    Args:
        document: the trend.
        manifest: ``corpus.json``, with the table of bugs.

    Raises:
        TrophyError: it tells of something *unsafe* in a version that no report is recorded for.
    """
    table = {bug["id"]: bug for bug in manifest["field_bugs"]}
    for case, version, verdict, bugs in _failures(document):
        if kind_of(verdict) == "unsafe" and not _reported(bugs, version, table):
            raise TrophyError(
                f"the trend tells of something unsafe in {visible(version, 60)}, {visible(case, 100)}, where "
                "no bug with a public report is recorded; make it again with: stc trend --public"
            )
    passages = []
    for passage in document.passages:
        changes = tuple(replace(change, detail="") for change in passage.changes if change.bugs)
        turns = Counter(change.turn for change in changes)
        passages.append(replace(passage, counts={turn: turns[turn] for turn in TURNS}, changes=changes))
    versions = tuple(
        replace(row, counts={}, remarks=(), shows=tuple(_recorded(row, table))) for row in document.versions
    )
    return replace(document, versions=versions, passages=tuple(passages))


def published_version(
    run: VersionRun, notes: Mapping[str, CaseInfo], manifest: Mapping[str, Any]
) -> VersionRun:
    """Return a version as a published trend may tell of it: *unsafe* without a report looks as if it passed.

    A trend tells of a case by its worst step, so that this must be done before cases are counted.

    Args:
        run: the version.
        notes: case id -> what is known of it.
        manifest: ``corpus.json``, with the table of bugs.
    """
    if run.record is None:
        return run
    table = {bug["id"]: bug for bug in manifest["field_bugs"]}
    options = {case["id"]: case.get("expect", {}).get("options", ()) for case in manifest["cases"]}

    def bugs_of(row: Row) -> tuple[KnownBug, ...]:
        note = notes.get(row["case"])
        return note.bugs if note is not None else ()

    def passed(row: Row) -> Row:
        # Who passes a case of a choice takes an option: here all versions the same, and none that is a bug.
        wrong = {bug.option for bug in bugs_of(row)}
        taken = (f"choice:{option}" for option in options.get(row["case"], ()) if option not in wrong)
        return {**row, "verdict": next(taken, "pass"), "detail": "", "failures": []}

    held = [
        is_unsafe(row) and not _reported([bug.id for bug in bugs_of(row)], run.version, table)
        for row in run.record.results
    ]
    hidden = {row["case"] for row, hide in zip(run.record.results, held, strict=True) if hide}
    results = [
        passed(row) if hide else redact_open(row) if row["case"] in hidden and row["step"] == "open" else row
        for row, hide in zip(run.record.results, held, strict=True)
    ]
    # Who dies over the basic files too may have an adapter that does not fit, which would tell of it as well.
    misfits = {case: said for case, said in run.misfits.items() if case not in hidden}
    return dataclasses.replace(run, record=dataclasses.replace(run.record, results=results), misfits=misfits)


def _failures(document: TrendDocument) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield case, version, verdict and known bugs of all that a trend tells of cases that show bugs."""
    for row in document.versions:
        for shown in row.shows:
            yield shown.case, row.version, shown.verdict, list(shown.bugs)
    for passage in document.passages:
        for change in passage.changes:
            bugs = [bug.bug for bug in change.bugs]
            if bugs:
                yield change.case, passage.before, change.before, bugs
                yield change.case, passage.after, change.after, bugs


def _reported(bugs: Iterable[str], version: str, table: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(affects(table[bug], version) for bug in bugs if bug in table)


def _recorded(row: VersionRow, table: Mapping[str, Mapping[str, Any]]) -> Iterator[ShownRow]:
    for shown in row.shows:
        bugs = tuple(bug for bug in shown.bugs if bug in table and affects(table[bug], row.version))
        if bugs:
            yield replace(shown, bugs=bugs)


def load_trends(folder: Path, manifest: Mapping[str, Any]) -> list[TrendDocument]:
    """Read every published trend of a folder. Raises TrophyError."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise TrophyError(f"{folder}: no trends; add one with: stc trophies --add FILE")
    out = []
    for path in paths:
        document = load_trend(path, manifest)
        if path.name != file_name(document.implementation):
            raise TrophyError(
                f"{path}: holds {visible(document.implementation, 60)}, which belongs into "
                f"{visible(file_name(document.implementation), 60)}"
            )
        if document != published_trend(document, manifest):
            raise TrophyError(
                f"{path}: holds more than may be published; write it with: stc trophies --add FILE"
            )
        out.append(document)
    return out


def load_trend(path: Path, manifest: Mapping[str, Any]) -> TrendDocument:
    """Read one trend and hold it against its model, itself and the corpus. Raises TrophyError."""
    try:
        document = typed(json.loads(read_whole(path, MAX_BYTES)), TrendDocument)
    except OSError as err:
        raise TrophyError(str(err)) from err
    except MisfitError as err:
        raise TrophyError(f"{path}: {err}") from err
    except (ValueError, RecursionError) as err:
        raise TrophyError(f"{path}: not JSON ({visible(str(err), 120)}); is it cut short?") from err
    fault = _fault(document) or _corpus_fault(document, manifest)
    if fault:
        raise TrophyError(f"{path}: {visible(fault, 300)}")
    return document


def _fault(document: TrendDocument) -> str:
    if not _NAME.fullmatch(document.implementation) or len(document.implementation) > 100:
        return "implementation must be a name of letters, digits, dots and hyphens, and may have an entry"
    if not _SOURCE.fullmatch(document.source):
        return "source must be the address of a repository that begins with https://"
    ran = [row.version for row in document.versions if row.ran]
    if document.interrupted or len(ran) != len(document.versions):
        return "not every version was run; run stc trend again"
    if not all(map(COMMIT.fullmatch, ran)):
        try:
            [Version(v) for v in ran]
        except ValueError as err:
            return f"{err}: versions must be releases, or all of them commits in full"
    if [(p.before, p.after) for p in document.passages] != list(pairwise(ran)):
        return "its passages are not those between its versions"
    for change in (c for passage in document.passages for c in passage.changes):
        if turn_of(change.before, change.after) != change.turn:
            return f"{change.case} is called {change.turn}, but went from {change.before} to {change.after}"
    return ""


def _corpus_fault(document: TrendDocument, manifest: Mapping[str, Any]) -> str:
    cases = {case["id"]: case for case in manifest["cases"]}
    changes = (c for passage in document.passages for c in passage.changes)
    shows = (s for row in document.versions for s in row.shows)
    told = [(c.case, {row.bug for row in c.bugs}, True) for c in changes]
    for name, bugs, every in [*told, *((s.case, set(s.bugs), False) for s in shows)]:
        case = cases.get(name)
        if case is None:
            return f"{name} is no case of the corpus; run stc trend again"
        rows = case["affects"]
        own = {row["bug"] for row in rows if same_project(document.implementation, row["project"])}
        if not bugs <= own or (every and bugs != own):
            return f"{name} names other bugs in the corpus; run stc trend again"
    return ""


def load_baselines(root: Path) -> list[Expectations]:
    """Read the baselines of a checkout, each for the version in its implementation's descriptor.

    Raises TrophyError.
    """
    out = []
    for path in sorted((root / IMPLEMENTATIONS).glob("*/expected_failures*.toml")):
        try:
            name, entries, _ = read_baseline(path)
            version = _newest(path.with_name("implementation.toml"))
            if not version:
                continue
        except (OSError, BaselineError) as err:
            raise TrophyError(str(err)) from err
        if not name:
            raise TrophyError(f"{path}: no baseline; 'implementation' and [[expected]] are needed")
        out.append(Expectations(name, version, entries))
    return out


def _newest(path: Path) -> str:
    """Return the version in a descriptor, nothing for what is part of this project and not installed.

    Raises OSError and TrophyError.
    """
    try:
        document = read_toml(path)
        if document and "install" not in document:
            return ""
        version = document.get("install", {}).get("version")
    except (ValueError, AttributeError) as err:
        raise TrophyError(f"{path}: not readable as a descriptor ({err})") from err
    try:
        return str(Version(version))
    except (ValueError, TypeError) as err:
        raise TrophyError(f"{path}: install.version = {version!r} is no version") from err
