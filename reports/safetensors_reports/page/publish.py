"""The published reports: a page of each implementation, one that compares all, a picture and an index."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from ..audit.build import build_report
from ..audit.disclosure import OWN
from ..audit.inputs import REPORT, AuditError, load_report
from ..audit.report import Implementation, Report, report_text
from ..audit.roles import LAYOUT, OPENING, REPEATED
from ..history.comparable import comparable_run
from ..history.directory import FILE, directory, directory_text
from ..history.ledger import FOLDER, Ledger, Line, append_lines, lines_of
from ..history.releases import history_page
from ..templates import render
from ..text import file_slug, listed, plural, visible
from .cards import DISPUTE, accepted_questions
from .comparison import RED, tables
from .html import comparison_html, report_html
from .picture import comparison_svg

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from safetensors_corpus import Manifest

    from ..audit.inputs import BaselineEntry
    from ..record.run import RunRecord

JSON, PAGE, INDEX, PICTURE, README = REPORT, "report.html", "index.html", "comparison.svg", "README.md"
MAX_LOST = 0.05
"""Most of the cases, as a share, that an adapter may fail on: beyond, the run tells of the adapter alone."""
ROOT = "../.."
"""From the folder of the published reports to the root of the project."""


def publication(
    records: Sequence[RunRecord],
    manifest: Manifest,
    known: Mapping[int, Sequence[BaselineEntry]] | None = None,
    ledgers: Mapping[str, Ledger] | None = None,
    unbuilt: Sequence[Unbuilt] = (),
) -> dict[str, str]:
    """Return path -> text of everything that is published about some runs.

    Args:
        records: runs of any implementations.
        manifest: the corpus that they used.
        known: position of a record -> entries of its baseline.
        ledgers: program -> history so far, to which the runs are added.
        unbuilt: programs that are built by hand alone.

    Raises:
        AuditError: there is no run.
    """
    known = known or {}
    out = {JSON: build_report(records, manifest, known=known, public=True)}
    lines: list[Line] = []
    for name, runs, entries in _by_program(records, known):
        part = build_report(runs, manifest, known=entries, public=True)
        out[_free(file_slug(name), out)] = part
        lines += _lines(runs, manifest, entries, part)
    told = append_lines(ledgers or {}, lines)
    texts = {path: report_text(report) for path, report in out.items()}
    return texts | pages(out, unbuilt) | history_texts(told, out)


def history(
    records: Sequence[RunRecord],
    manifest: Manifest,
    known: Mapping[int, Sequence[BaselineEntry]] | None = None,
) -> list[Line]:
    """Return the lines that runs add to the histories of their programs.

    Args:
        records: runs of any implementations, in any versions.
        manifest: the corpus that they used.
        known: position of a record -> entries of its baseline.

    Raises:
        AuditError: a run is not whole, or of a version that its adapter does not fit.
    """
    out: list[Line] = []
    for _, runs, entries in _by_program(records, known or {}):
        out += _lines(runs, manifest, entries)
    for line in out:
        if line.lost > MAX_LOST * line.asked:
            raise AuditError(
                f"{visible(line.label, 80)}: nothing is known of {line.lost:,} of "
                f"{plural(line.asked, 'case')}, for the adapter does not fit this version; leave the run out"
            )
    return out


def _by_program(
    records: Sequence[RunRecord], known: Mapping[int, Sequence[BaselineEntry]]
) -> Iterator[tuple[str, list[RunRecord], dict[int, Sequence[BaselineEntry]]]]:
    by_name: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        by_name.setdefault(str(record.implementation["name"]), []).append(i)
    for name, numbers in by_name.items():
        entries = {new: known[i] for new, i in enumerate(numbers) if i in known}
        yield name, [records[i] for i in numbers], entries


def _lines(
    runs: Sequence[RunRecord],
    manifest: Manifest,
    known: Mapping[int, Sequence[BaselineEntry]],
    made: Report | None = None,
) -> list[Line]:
    fits = [comparable_run(run, manifest, known.get(i, ())) for i, run in enumerate(runs)]
    if made is None or any(fit is not run for fit, run in zip(fits, runs, strict=True)):
        made = build_report(fits, manifest, known=known, public=True)
    return lines_of(made)


def history_texts(ledgers: Mapping[str, Ledger], reports: Mapping[str, Report]) -> dict[str, str]:
    """Return path -> text of everything that is made of histories.

    Args:
        ledgers: program -> its history.
        reports: published reports by path; without any there is no list of all programs.
    """
    homes = {
        who.name: f"../{PurePosixPath(path).parent}/{PAGE}"
        for path, report in reports.items()
        if path != JSON
        for who in report.implementations
    }
    out = {}
    for program, ledger in ledgers.items():
        out[f"{FOLDER}/{ledger.stem}.jsonl"] = ledger.text
        out[f"{FOLDER}/{ledger.stem}.md"] = history_page(ledger, homes.get(program, ""))
    if reports:
        out[FILE] = directory_text(directory(reports, ledgers, PAGE))
    return out


def _free(folder: str, taken: Mapping[str, Report]) -> str:
    """Return the path of a project's report; names that look alike get a number."""
    number, path = 1, f"{folder}/{JSON}"
    while path in taken:
        number += 1
        path = f"{folder}-{number}/{JSON}"
    return path


class Unbuilt(NamedTuple):
    """A program that is built by hand alone; ``revision`` is the commit or version that is meant."""

    name: str
    title: str
    language: str
    homepage: str
    revision: str
    note: str


def pages(reports: Mapping[str, Report], unbuilt: Sequence[Unbuilt] = ()) -> dict[str, str]:
    """Return path -> text of everything that is made of published reports, which are given by path.

    Those of ``unbuilt`` that no report is about are listed as never run.

    Raises:
        AuditError: the report about all tells of an implementation that has none of its own.
    """
    whole = reports[JSON]
    places = {
        who.label: f"{PurePosixPath(path).parent}/{PAGE}"
        for path, report in reports.items()
        if path != JSON
        for who in report.implementations
    }
    lost = [who.label for who in whole.implementations if who.label not in places]
    if lost:
        raise AuditError(
            f"{JSON}: tells of {visible(listed(lost, 4))}, of which no folder has one; publish again"
        )
    run = {who.name for who in whole.implementations}
    out = {
        f"{PurePosixPath(path).parent}/{PAGE}": report_html(
            report, home=f"../{INDEX}", dispute=f"../{ROOT}/{DISPUTE}"
        )
        for path, report in reports.items()
        if path != JSON
    }
    out[INDEX] = comparison_html(whole, places, sentences(whole), f"{ROOT}/{DISPUTE}")
    out[PICTURE] = comparison_svg(whole)
    out[README] = render(
        "published.md",
        report=whole,
        places=places,
        sentences=sentences(whole),
        tables=tables(whole, places),
        never=[known for known in unbuilt if known.name not in run],
        INDEX=INDEX,
        JSON=JSON,
        PAGE=PAGE,
        PICTURE=PICTURE,
    )
    return out


def load_published(folder: Path) -> dict[str, Report]:
    """Return the reports in a folder by path. Raises AuditError for what is no report."""
    paths = [folder / JSON, *sorted(folder.glob(f"*/{JSON}"))]
    return {path.relative_to(folder).as_posix(): load_report(path) for path in paths}


def sentences(report: Report) -> list[str]:
    others = [who for who in report.implementations if who.name != OWN]
    day = max((run.started or "")[:10] for run in report.run.runs)
    most = max((who.due for who in others), default=0)
    projects = len({who.name for who in others})
    graded: dict[str, list[Implementation]] = {}
    for who in others:
        graded.setdefault(_accepts(who), []).append(who)
    wrong = {kind: [who for who in others if who.counts.get(kind)] for kind in RED}
    return [
        (
            f"{plural(len(others), 'entry point')} of {plural(projects, 'project')}, which run "
            f"{plural(_parsers(others), 'parser')}, were asked about up to {most:,} cases each on {day}."
        ),
        (
            f"Of files that the written format forbids, {_counted(graded.get('layout', ()))} accept some "
            "with a broken layout: holes, overlaps, ranges outside of the file or sizes that do not fit. "
            f"{_counted(graded.get('other', ()))} accept others and none with a broken layout; "
            f"{_counted(graded.get('repeated', ()))} accept only files that give a key twice."
        ),
        (
            f"{len(wrong['wrong-content']):,} report content that is not the file's or write invalid files, "
            f"{len(wrong['wrong-reject']):,} refuse what the format allows, and {_nothing(others)}."
        ),
        (
            "A bar is as long as the share of cases that fail in an area of rules; readers, listers, "
            "scanners, writers and loaders have tables of their own, and an area that a program does not "
            "claim, or was not asked about, is blank."
        ),
        (
            "Crashes, hangs and endless memory stand in no cell, because those without a public report are "
            "held back, and the reference is our own, written from the same rules as the corpus: no row here "
            "is a clean bill."
        ),
    ]


def _accepts(who: Implementation) -> str:
    """Return the worst of what an entry point accepts against the text, empty for nothing.

    A word of: ``layout``, ``other``, ``repeated``.
    """
    questions = frozenset().union(*(accepted_questions(role) for role in who.roles if role.role in OPENING))
    if questions & LAYOUT:
        return "layout"
    return "other" if questions - REPEATED else "repeated" if questions else ""


def _parsers(whos: Sequence[Implementation]) -> int:
    return len({who.parser or who.name for who in whos})


def _counted(whos: Sequence[Implementation]) -> str:
    return f"{len(whos):,} ({plural(_parsers(whos), 'parser')})"


def _nothing(others: Sequence[Implementation]) -> str:
    """Say which entry points that open files show nothing against the text, and how many open none."""
    opens = [who for who in others if OPENING & {role.role for role in who.roles}]
    clean = [who.label for who in opens if not any(who.counts.get(kind) for kind in RED if kind != "unsafe")]
    does = "does" if len(clean) == 1 else "do"
    text = (
        f"{len(clean):,} of the {len(opens):,} that open files {does} none of these ({listed(clean, 4)})"
        if clean
        else "every one that opens files does at least one of these"
    )
    rest = len(others) - len(opens)
    return text + (f"; {rest:,} {'opens' if rest == 1 else 'open'} none" if rest else "")


def stale(folder: Path, texts: Mapping[str, Any]) -> list[Path]:
    """Return the published reports in a folder of implementations that are not among ``texts``.

    Histories stay, whether or not their program is still run, and so does everything in a folder without a
    publication: reports of other commands have the same names.
    """
    if not all((folder / name).is_file() for name in (JSON, INDEX, PICTURE)):
        return []
    found = [*folder.glob(f"*/{JSON}"), *folder.glob(f"*/{PAGE}")]
    return sorted(path for path in found if path.relative_to(folder).as_posix() not in texts)
