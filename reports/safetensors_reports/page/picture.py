"""Chart for the README: well-known programs by kind and area; the bars show the share of failing cases."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..audit.report import Report
from ..history.ledger import entry_of
from .cards import RED, Row, tables
from .design import render, style_sheet
from .svg import fit_label

WIDTH, MARGIN, NAME, CELL = 800, 14, 174, 42
"""The widths of the chart, its margin, the name column and each other column, in pixels."""
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
        render(
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
            style=style_sheet("chart").strip(),
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
