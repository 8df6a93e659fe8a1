"""``implementations.json``: every program that is published, for others to use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, Struct, to_builtins

from safetensors_corpus.typed import ADDRESS, Count

from ..audit.disclosure import OWN
from ..audit.inputs import REPORT
from ..versions import is_prerelease, label_key, version_key
from .ledger import FOLDER, CorpusName, Kind, entry_of

if TYPE_CHECKING:
    from ..audit.report import Implementation, Report
    from .ledger import Ledger

FILE = "implementations.json"
FORMAT: Final = 1
"""Version of the format; raised when a reader must follow."""
NOT_TOLD = frozenset({"pass", "choice", "unsafe"})
"""Kinds of verdict that no comparison counts of other people's software; reports from before that did."""
Day = Annotated[str, Meta(pattern="^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")]


class EntryRow(Struct, frozen=True):
    """One way of calling a program, in the newest version that was run.

    Attributes:
        selector: What --impl takes, without the version.
        kind: reader, header, validator, scanner or device; empty where nobody has described it.
        roles: What it was judged as: reader, lister, checker, writer, index, device.
        steps: What it was asked to do.
        version: The version that was run.
        date: Day of the run.
        asked: Cases that were due.
        counts: Kind of verdict -> cases, as the comparison tells them: of other people's software neither
            what passed nor anything unsafe.
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
    """A version of which results are kept.

    Attributes:
        date: Day of its newest run.
    """

    version: str
    date: Day


class ProgramRow(Struct, frozen=True):
    """One program. Addresses of files are relative to this document.

    Attributes:
        title: What its makers call it, or empty.
        homepage: Address, or empty.
        issues: Address of its tracker, or empty.
        language: Of the part that parses.
        kind: Of its first entry point.
        newest: The newest release of which results are kept; a pre-release where there is nothing else.
        versions: All of which results are kept, the oldest first.
        report: Its page.
        data: What the page is made of, by report.schema.json.
        history: Page of what each release changed; empty for none.
        ledger: What that page is made of, for each run one line of JSON by history.schema.json; empty for
            none.
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
    """All programs whose results are published. Readers ignore properties they do not know.

    Attributes:
        schema: Version of this format; raised when a reader must follow.
        corpus: That of the newest reports.
    """

    address: Annotated[str, Meta(description="The schema of this document.")]
    schema: Literal[1]
    corpus: CorpusName
    programs: tuple[ProgramRow, ...]


def directory(reports: Mapping[str, Report], ledgers: Mapping[str, Ledger], page: str) -> DirectoryDocument:
    """Return what is told of every program that has a published report.

    Args:
        reports: published reports by path; the numbers are those of the one about all.
        ledgers: program -> history.
        page: name of the page beside a report.
    """
    whole = reports[REPORT]
    days = {run.implementation: (run.started or "")[:10] for run in whole.run.runs}
    by_label = {who.label: who for who in whole.implementations}
    programs = []
    for path, report in reports.items():
        mine = [by_label[who.label] for who in report.implementations if who.label in by_label]
        mine.sort(key=lambda who: label_key(who.label))  # the default stands before its entries
        if path != REPORT and mine:
            folder = PurePosixPath(path).parent
            programs.append(_program(mine, days, ledgers.get(mine[0].name), f"{folder}/{page}", path))
    corpus = CorpusName(whole.corpus.version, whole.corpus.sha256[:16])
    programs.sort(key=lambda row: row.name)
    return DirectoryDocument(f"{ADDRESS}implementations.schema.json", FORMAT, corpus, tuple(programs))


def _program(
    whos: list[Implementation], days: Mapping[str, str], ledger: Ledger | None, page: str, data: str
) -> ProgramRow:
    first = whos[0]
    found = {who.version: days.get(who.label, "") for who in whos}
    for line in ledger.lines if ledger else ():
        found[line.version] = max(found.get(line.version, ""), line.date)
    versions = _sorted(found)
    return ProgramRow(
        name=first.name,
        title=first.title,
        homepage=first.homepage,
        issues=first.issues,
        language=first.language,
        kind=first.kind,
        newest=([row for row in versions if not is_prerelease(row.version)] or versions)[-1].version,
        entries=tuple(_entry(who, days.get(who.label, "")) for who in whos),
        versions=tuple(versions),
        report=page,
        data=data,
        history=f"{FOLDER}/{ledger.stem}.md" if ledger else "",
        ledger=f"{FOLDER}/{ledger.stem}.jsonl" if ledger else "",
    )


def _entry(who: Implementation, day: str) -> EntryRow:
    return EntryRow(
        selector=entry_of(who),
        kind=who.kind,
        roles=tuple(role.role for role in who.roles),
        steps=tuple(who.steps),
        version=who.version,
        date=day,
        asked=who.due,
        counts={kind: n for kind, n in who.counts.items() if who.name == OWN or kind not in NOT_TOLD},
    )


def _sorted(found: Mapping[str, str]) -> list[VersionRow]:
    rows = [VersionRow(version, day) for version, day in found.items()]
    return sorted(rows, key=lambda row: (version_key(row.version), row.date, row.version))


def directory_text(document: DirectoryDocument) -> str:
    return json.dumps(to_builtins(document), indent=1, ensure_ascii=True) + "\n"
