"""``implementations.json``: a machine-readable list of all published programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, to_builtins

from safetensors_corpus.typed import ADDRESS, Count

from ..audit.disclosure import OWN
from ..audit.inputs import REPORT
from ..audit.report import Implementation, Report
from ..text import is_prerelease, label_key, version_key
from .ledger import FOLDER, CorpusName, Kind, Ledger, entry_of

FILE = "implementations.json"
FORMAT: Final = 1
NOT_TOLD = frozenset({"pass", "choice", "unsafe"})
"""Kinds of verdict that comparisons leave out for other people's software.

Reports from older versions still contain them.
"""
Day = Annotated[str, Meta(pattern="^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")]


class EntryRow(Struct, frozen=True):
    """One entry point of a program, in the newest version that was run.

    Attributes:
        selector: Value for --impl, without the version.
        kind: reader, header, validator, scanner or device; empty if there is no descriptor.
        roles: Roles in which it was tested: reader, lister, checker, writer, index, device.
        steps: Steps that were run.
        version: The version that was run.
        date: Day of the run.
        asked: Number of cases in a full run.
        counts: Kind of verdict -> cases, as in the comparison. For other people's software, passes and unsafe
            results are left out.
    """

    selector: str
    kind: str
    roles: tuple[str, ...]
    steps: tuple[str, ...]
    version: str
    date: Day
    asked: Count
    counts: dict[Kind, Count]


class VersionRow(Struct, frozen=True):
    """A version with stored results.

    Attributes:
        date: Day of its newest run.
    """

    version: str
    date: Day


class ProgramRow(Struct, frozen=True):
    """One program. Addresses of files are relative to this document.

    Attributes:
        title: Name that its authors use, or empty.
        homepage: Address, or empty.
        issues: Address of its issue tracker, or empty.
        language: Language of the parser.
        kind: Kind of its first entry point.
        newest: The newest release with stored results, or a pre-release if no release has results.
        versions: All versions with stored results, oldest first.
        report: Address of its report.
        data: Address of the data of that report, described by report.schema.json.
        history: Address of the page that lists its changes by release, or empty.
        ledger: Address of the data of that page, or empty. It has one line of JSON per run, described by
            history.schema.json.
    """

    name: str
    title: str
    homepage: str
    issues: str
    language: str
    kind: str
    newest: str
    entries: tuple[EntryRow, ...]
    versions: tuple[VersionRow, ...]
    report: str
    data: str
    history: str
    ledger: str


class DirectoryDocument(Struct, frozen=True):
    """All programs with published results. Readers ignore properties that they do not know.

    Attributes:
        schema: Version of this format; every incompatible change increments it.
        corpus: Corpus that the newest reports use.
    """

    address: Annotated[str, Meta(description="The schema of this document.")]
    schema: Literal[1]
    corpus: CorpusName
    programs: tuple[ProgramRow, ...]


def directory(reports: Mapping[str, Report], ledgers: Mapping[str, Ledger], page: str) -> DirectoryDocument:
    whole = reports[REPORT]
    days = {run.implementation: (run.started or "")[:10] for run in whole.run.runs}
    by_label = {one.label: one for one in whole.implementations}
    programs = []
    for path, report in reports.items():
        mine = [by_label[one.label] for one in report.implementations if one.label in by_label]
        mine.sort(key=lambda one: label_key(one.label))  # default entry point first
        if path != REPORT and mine:
            folder = PurePosixPath(path).parent
            programs.append(_program(mine, days, ledgers.get(mine[0].name), f"{folder}/{page}", path))
    corpus = CorpusName(whole.corpus.version, whole.corpus.sha256[:16])
    programs.sort(key=lambda row: row.name)
    return DirectoryDocument(f"{ADDRESS}implementations.schema.json", FORMAT, corpus, tuple(programs))


def _program(
    implementations: list[Implementation],
    days: Mapping[str, str],
    ledger: Ledger | None,
    page: str,
    data: str,
) -> ProgramRow:
    first = implementations[0]
    run_days = {one.version: days.get(one.label, "") for one in implementations}
    for line in ledger.runs if ledger else ():
        run_days[line.version] = max(run_days.get(line.version, ""), line.date)
    versions = [VersionRow(version, day) for version, day in run_days.items()]
    versions.sort(key=lambda row: (version_key(row.version), row.date, row.version))
    return ProgramRow(
        name=first.name,
        title=first.title,
        homepage=first.homepage,
        issues=first.issues,
        language=first.language,
        kind=first.kind,
        newest=([row for row in versions if not is_prerelease(row.version)] or versions)[-1].version,
        entries=tuple(
            EntryRow(
                selector=entry_of(one),
                kind=one.kind,
                roles=tuple(role.role for role in one.roles),
                steps=tuple(one.steps),
                version=one.version,
                date=days.get(one.label, ""),
                asked=one.due,
                counts={k: n for k, n in one.counts.items() if one.name == OWN or k not in NOT_TOLD},
            )
            for one in implementations
        ),
        versions=tuple(versions),
        report=page,
        data=data,
        history=f"{FOLDER}/{ledger.stem}.md" if ledger else "",
        ledger=f"{FOLDER}/{ledger.stem}.jsonl" if ledger else "",
    )


def directory_text(document: DirectoryDocument) -> str:
    return json.dumps(to_builtins(document), indent=1, ensure_ascii=True) + "\n"
