"""Chart for the README: well-known programs by kind and area; the bars show the share of failing cases."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from xml.sax.saxutils import escape

from ..audit.report import Report
from ..history.ledger import entry_of
from .comparison import RED, Row, tables
from .svg import fit_label

WIDTH, MARGIN, NAME, CELL = 800, 14, 174, 42
"""The widths of the chart, its margin, the name column and each other column, in pixels."""
TOP, LINE, GROUP = 150, 21, 30
"""The heights of the header, of a row, and of the header of a group."""
TRACK, THICK = 36, 9
"""Length and height of a bar."""
MAX_LABEL = 25
MOST = 15
COLOURS = {
    "g": ("#ffffff", "#0d1117"),
    "track": ("#e4e8ee", "#2b323b"),
    "clear": ("#a8dcb5", "#1f5a35"),
    "content": ("#86102a", "#ff8fa0"),
    "accept": ("#d1242f", "#f85149"),
    "reject": ("#c98a04", "#e3b341"),
    "unsafe": ("#4b1d6b", "#a371f7"),
}
_LEGEND = (
    ("content", 60, "wrong values or files"),
    ("accept", 60, "accepts forbidden files"),
    ("reject", 60, "rejects valid files"),
    ("clear", 100, "no failure shown"),
)


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
        replace(table, rows=rows)
        for table in tables(report)
        if (rows := [row for row in table.rows if entry_of(row.who) in chosen])
    ]
    areas = {row.area: row.title for row in report.matrix}
    used = [
        area
        for area in areas
        if any(cell.area == area and cell.bars for t in shown for r in t.rows for cell in r.cells)
    ]
    parts = _heads([areas[area] for area in used])
    y = TOP
    for table in shown:
        parts.append(f'<text class="h" x="{MARGIN}" y="{y + 20}">{escape(table.head)}</text>')
        parts.append(f'<path class="rule" d="M{MARGIN} {y + 27.5}H{WIDTH - MARGIN}"/>')
        y += GROUP + 2
        for row in table.rows:
            parts += _row(row, used, y)
            y += LINE
        y += 6
    height = y + 62
    parts += _legend(y + 18)
    title = (
        f"{len(set(chosen)):,} programs that read or write safetensors: share of cases that violate the "
        "written format"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" width="{WIDTH}" '
        f'height="{height}" viewBox="0 0 {WIDTH} {height}">\n<style>{_style()}</style>\n'
        f'<rect width="{WIDTH}" height="{height}" rx="10" class="g"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _heads(titles: list[str]) -> list[str]:
    out = [
        f'<text class="t" x="{MARGIN}" y="32">Violations of the written format</text>',
        "The length of a bar shows the share of failing cases.",
    ]
    for i, title in enumerate(titles):
        x = MARGIN + NAME + CELL * i + 12
        out.append(
            f'<text class="a" transform="translate({x:g} {TOP - 2}) rotate(-38)">{escape(title)}</text>'
        )
    return out


def _row(row: Row, areas: list[str], y: float) -> list[str]:
    known = well_known().get(entry_of(row.who))
    name = known.name if known else row.who.label
    out = [f'<text x="{MARGIN}" y="{y + 13:g}">{escape(fit_label(name, MAX_LABEL))}</text>']
    cells = {cell.area: cell for cell in row.cells}
    for i, area in enumerate(areas):
        cell = cells.get(area)
        if cell is not None and cell.bars:
            bar = cell.bars[0]
            colour = bar.colour if bar.colour in RED.values() else "accept"
            colour, share = (colour, bar.share) if bar.failed else ("clear", 100.0)
            out.append(_pill(colour, share, MARGIN + NAME + CELL * i, y + 4, cell.text))
    return out


def _pill(colour: str, share: float, x: float, y: float, tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    # Keep small shares visible and distinct from large ones.
    wide = TRACK if share >= 100 else min(max(TRACK * share / 100, 2.5), TRACK - 2)
    track = (
        ""
        if colour == "clear"
        else f'<rect class="track" x="{x:g}" y="{y:g}" width="{TRACK}" height="{THICK}" rx="3"/>'
    )
    return (
        f'<g>{title}{track}<rect class="{colour}" x="{x:g}" y="{y:g}" width="{wide:.3g}" height="{THICK}" '
        f'rx="{min(3, wide / 2):.2g}"/></g>'
    )


def _legend(y: float) -> list[str]:
    out, x = [], float(MARGIN)
    for colour, share, text in _LEGEND:
        out.append(_pill(colour, share, x, y))
        out.append(f'<text class="q" x="{x + TRACK + 7:g}" y="{y + 9:g}">{text}</text>')
        x += TRACK + 24 + 6.1 * len(text)
    out.append(
        f'<text class="q" x="{MARGIN}" y="{y + 31:g}">Blank: no cases, or not claimed. '
        "Alphabetical order. Crashes are left out because only some of them are public.</text>"
    )
    return out


def _style() -> str:
    def fills(place: int) -> str:
        return "".join(f".{name}{{fill:{colours[place]}}}" for name, colours in COLOURS.items())

    return (
        'text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:#1f2328}'
        ".t{font-size:17px;font-weight:700}.h{font-weight:700}.q,.a{font-size:12px;fill:#57606a}"
        f".rule{{stroke:#d0d7de}}{fills(0)}"
        "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.q,.a{fill:#9aa4af}.rule{stroke:#30363d}"
        f"{fills(1)}}}"
    )
