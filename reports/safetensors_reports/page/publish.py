"""Published reports: a page per implementation, a comparison, a chart and an index."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from safetensors_corpus import Manifest

from ..audit.build import build_report, report_text
from ..audit.disclosure import OWN
from ..audit.inputs import REPORT, AuditError, BaselineEntry, load_report
from ..audit.report import Implementation, Report
from ..history.comparable import comparable_run
from ..history.directory import FILE, directory, directory_text
from ..history.ledger import FOLDER, Ledger, Line, append_lines, entry_of, lines_of
from ..history.releases import history_page
from ..labels import LAYOUT, OPENING, REPEATED
from ..record.run import RunRecord
from ..templates import render, render_lines
from ..text import file_slug, listed, plural, unused, visible
from .design import fit_label, render_markup, style_sheet
from .html import comparison_html, report_html
from .results import DISPUTE, RED, Row, accepted_questions, tables

JSON, PAGE, INDEX, PICTURE, README = REPORT, "report.html", "index.html", "comparison.svg", "README.md"
MAX_LOST = 0.05
ROOT = "../.."


def publication(
    records: Sequence[RunRecord],
    manifest: Manifest,
    known: Mapping[int, Sequence[BaselineEntry]] | None = None,
    ledgers: Mapping[str, Ledger] | None = None,
    unbuilt: Sequence[Unbuilt] = (),
) -> dict[str, str]:
    known = known or {}
    out = {JSON: build_report(records, manifest, known=known, public=True)}
    lines: list[Line] = []
    for name, runs, entries in _by_program(records, known):
        part = build_report(runs, manifest, known=entries, public=True)
        folder = unused(file_slug(name), {path.partition("/")[0] for path in out})
        out[f"{folder}/{JSON}"] = part
        lines += _lines(runs, manifest, entries, part)
    histories = append_lines(ledgers or {}, lines)
    texts = {path: report_text(report) for path, report in out.items()}
    return texts | pages(out, unbuilt) | history_texts(histories, out)


def history(
    records: Sequence[RunRecord],
    manifest: Manifest,
    known: Mapping[int, Sequence[BaselineEntry]] | None = None,
) -> list[Line]:
    out: list[Line] = []
    for _, runs, entries in _by_program(records, known or {}):
        out += _lines(runs, manifest, entries)
    for line in out:
        lost = line.counts.get("harness-error", 0)
        if lost > MAX_LOST * line.asked:
            raise AuditError(
                f"{visible(line.label, 80)}: {lost:,} of {plural(line.asked, 'case')} have no "
                "result because the adapter does not fit this version; leave this run out"
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
    homes = {who.name: f"../{place}" for who, place in _places(reports)}
    out = {f"{FOLDER}/{ledger.stem}.jsonl": ledger.text for ledger in ledgers.values()}
    run = {program: ledger for program, ledger in ledgers.items() if ledger.runs}
    for program, ledger in run.items():
        out[f"{FOLDER}/{ledger.stem}.md"] = history_page(ledger, homes.get(program, ""))
    if reports:
        out[FILE] = directory_text(directory(reports, run, PAGE))
    return out


def _places(reports: Mapping[str, Report]) -> Iterator[tuple[Implementation, str]]:
    for path, report in reports.items():
        if path != JSON:
            yield from ((who, f"{PurePosixPath(path).parent}/{PAGE}") for who in report.implementations)


class Unbuilt(NamedTuple):
    """A program that must be built by hand; ``revision`` is a commit or a version."""

    name: str
    title: str
    language: str
    homepage: str
    revision: str
    note: str


def pages(reports: Mapping[str, Report], unbuilt: Sequence[Unbuilt] = ()) -> dict[str, str]:
    whole = reports[JSON]
    places = {who.label: place for who, place in _places(reports)}
    missing = [one.label for one in whole.implementations if one.label not in places]
    if missing:
        raise AuditError(
            f"{JSON}: there is no separate report for {visible(listed(missing, 4))}; publish again"
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
        tables=tables(whole),
        never=[program for program in unbuilt if program.name not in run],
        INDEX=INDEX,
        JSON=JSON,
        PAGE=PAGE,
        PICTURE=PICTURE,
    )
    return out


def load_published(folder: Path) -> dict[str, Report]:
    paths = [folder / JSON, *sorted(folder.glob(f"*/{JSON}"))]
    return {path.relative_to(folder).as_posix(): load_report(path) for path in paths}


def sentences(report: Report) -> list[str]:
    others = [who for who in report.implementations if who.name != OWN]
    graded: dict[str, list[Implementation]] = {"layout": [], "other": [], "repeated": []}
    for who in others:
        files = (accepted_questions(role) for role in who.roles if role.role in OPENING)
        if questions := frozenset[str]().union(*files):
            worst = "layout" if questions & LAYOUT else "other" if questions - REPEATED else "repeated"
            graded[worst].append(who)
    opens = [who for who in others if OPENING & {role.role for role in who.roles}]
    return render_lines(
        "headline.txt",
        entries=len(others),
        projects=len({who.name for who in others}),
        parsers=lambda whos: plural(len({who.parser or who.name for who in whos}), "parser"),
        others=others,
        most=max((who.due for who in others), default=0),
        day=max((run.started or "")[:10] for run in report.run.runs),
        graded=graded,
        wrong={kind: sum(bool(who.counts.get(kind)) for who in others) for kind in RED},
        opens=len(opens),
        clean=[
            who.label for who in opens if not any(who.counts.get(kind) for kind in RED if kind != "unsafe")
        ],
    )


def stale(folder: Path, texts: Mapping[str, Any]) -> list[Path]:
    """Return the published reports that are stale because they are not among ``texts``.

    Histories and other files are never stale.
    """
    if not all((folder / name).is_file() for name in (JSON, INDEX, PICTURE)):
        return []
    paths = [*folder.glob(f"*/{JSON}"), *folder.glob(f"*/{PAGE}")]
    return sorted(path for path in paths if path.relative_to(folder).as_posix() not in texts)


WIDTH, MARGIN, NAME, CELL = 800, 14, 174, 42
"""The widths of the chart, its margin, the name column and every other column, in pixels."""
TOP, LINE, GROUP = 150, 21, 30
"""The heights of the header, of a row, and of the header of a group."""
TRACK = 36
"""Length of a bar."""
MAX_LABEL = 25
MOST = 15


@dataclass(frozen=True)
class WellKnownProgram:
    """A well-known program: its selector, its name in the chart, and the reason why it is included."""

    selector: str
    name: str
    reason: str


@cache
def well_known() -> dict[str, WellKnownProgram]:
    text = (files(__package__) / "well_known.toml").read_text("utf-8")
    programs = [WellKnownProgram(**row) for row in tomllib.loads(text)["program"]]
    return {program.selector: program for program in programs}


def comparison_svg(report: Report) -> str:
    known = well_known()
    selectors = [entry_of(who) for who in report.implementations]
    chosen = [s for s in selectors if s in known] or selectors[:MOST]
    shown = [
        table._replace(rows=rows)
        for table in tables(report)
        if (rows := [row for row in table.rows if entry_of(row.who) in chosen])
    ]
    areas = {row.area: row.title for row in report.matrix}
    used = [
        area
        for area in areas
        if any(cell.area == area and cell.bars for t in shown for r in t.rows for cell in r.cells)
    ]
    groups = []
    y = TOP
    for table in shown:
        start = y + GROUP + 2
        lines = [(start + LINE * i, _name(row), _pills(row, used)) for i, row in enumerate(table.rows)]
        groups.append((y, table.head, lines))
        y = start + LINE * len(lines) + 6
    return str(
        render_markup(
            "chart.svg",
            programs=len(set(chosen)),
            titles=[areas[area] for area in used],
            groups=groups,
            width=WIDTH,
            height=y + 62,
            margin=MARGIN,
            columns_at=MARGIN + NAME,
            cell=CELL,
            top=TOP,
            track=TRACK,
            legend_at=y + 18,
            style=style_sheet("comparison_svg").strip(),
        )
    )


def _name(row: Row) -> str:
    known = well_known().get(entry_of(row.who))
    return fit_label(known.name if known else row.who.label, MAX_LABEL)


def _pills(row: Row, areas: list[str]) -> list[tuple[int, str, float, str]]:
    out = []
    for cell in row.cells:
        if cell.bars and cell.area in areas:
            bar = cell.bars[0]
            colour = bar.colour if bar.colour in RED.values() else "accept"
            colour, share = (colour, bar.share) if bar.failed else ("clear", 100.0)
            out.append((areas.index(cell.area), colour, share, cell.text))
    return out
