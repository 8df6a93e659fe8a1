"""The picture of many implementations: a row each, a column for every area of rules, letters in the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from ..audit.coverage import LETTERS
from ..drawing.canvas import fitted
from .coverage import standing
from .labels import COLOURS, SHORT, STYLE, WORD_STYLE

if TYPE_CHECKING:
    from ..audit.build import Report

NAME, WORD, CELL, ROW = 262, 122, 38, 19
"""Widths of the columns and height of a row, in pixels."""
MARGIN, HEAD = 10, 34
MAX_LABEL = 36
"""Most columns of text of a name."""
_LEGEND = ("unsafe", "wrong-content", "wrong-accept", "wrong-reject", "deviation", "late-reject",
    "not-strict", "unsupported", "choice", "pass", "not asked")  # fmt: skip


def comparison_svg(report: Report) -> str:
    """Return the picture of a report's implementations as an SVG document, ending in a line break."""
    rows = standing(report)
    areas = [(row["area"], row["title"]) for row in report["matrix"]]
    width = 2 * MARGIN + NAME + WORD + CELL * len(areas)
    height = HEAD + ROW * len(rows) + 62
    parts = []
    for i, (code, title) in enumerate(areas):
        x = MARGIN + NAME + WORD + CELL * (i + 0.5)
        parts.append(
            f'<text x="{x:g}" y="24" text-anchor="middle"><title>{escape(title)}</title>{escape(code)}</text>'
        )
    for number, (who, cells) in enumerate(rows):
        y = HEAD + ROW * number
        parts.append(f'<text x="{MARGIN}" y="{y + 14}">{escape(fitted(who["label"], MAX_LABEL))}</text>')
        parts.append(_cell(MARGIN + NAME, y, WORD, WORD_STYLE[who["word"]], who["word"]))
        for i, (kind, known, cases) in enumerate(cells):
            tip = f"{areas[i][1]}: {SHORT[kind]}, {known:,} of {cases:,} cases"
            parts.append(_cell(MARGIN + NAME + WORD + CELL * i, y, CELL, STYLE[kind], LETTERS[kind], tip))
    parts += _legend(HEAD + ROW * len(rows) + 22)
    title = f"Conformance of {len(rows):,} readers and writers of safetensors by area of rules"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">\n<style>{_style()}</style>\n'
        f'<rect width="{width}" height="{height}" class="g"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _cell(x: float, y: float, wide: float, style: str, text: str, tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    box = f'<rect x="{x:g}" y="{y:g}" width="{wide - 2:g}" height="{ROW - 2}" rx="2"/>'
    return (
        f'<g class="{style}">{title}{box}'
        f'<text x="{x + wide / 2 - 1:g}" y="{y + 13:g}" text-anchor="middle">{escape(text)}</text></g>'
    )


def _legend(y: float) -> list[str]:
    out, x = [], float(MARGIN)
    for number, kind in enumerate(_LEGEND):
        if number == len(_LEGEND) // 2:
            x, y = float(MARGIN), y + 22
        out.append(_cell(x, y - 14, 26, STYLE[kind], LETTERS[kind]))
        out.append(f'<text x="{x + 30:g}" y="{y}">{escape(SHORT[kind])}</text>')
        x += 150
    return out


def _style() -> str:
    light = "".join(f".{k} rect{{fill:{c[0]}}}.{k} text{{fill:{c[1]}}}" for k, c in COLOURS.items())
    dark = "".join(f".{k} rect{{fill:{c[2]}}}.{k} text{{fill:{c[3]}}}" for k, c in COLOURS.items())
    night = f"text{{fill:#e6edf3}}.g{{fill:#0d1117}}{dark}"
    return (
        'text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;fill:#1f2328}'
        f".g{{fill:#fff}}{light}@media (prefers-color-scheme:dark){{{night}}}"
    )
