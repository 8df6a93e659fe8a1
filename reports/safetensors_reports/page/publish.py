"""The published reports: a page of each implementation, one that compares all, a picture and an index."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from safetensors_corpus.judging.verdicts import STRICT_FAILING

from ..audit.build import build_report
from ..audit.disclosure import OWN
from ..audit.inputs import REPORT, AuditError, load_report
from ..audit.report import LETTERS, Report, report_text
from ..drawing.canvas import fitted
from ..templates import render
from ..text import listed, slug, visible
from .coverage import standing
from .html import report_html
from .labels import COLOURS, SHORT, STYLE, WORD_STYLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from safetensors_corpus import Manifest

    from ..audit.inputs import Known
    from ..record.run import RunRecord

JSON, PAGE, INDEX, PICTURE, README = REPORT, "report.html", "index.html", "comparison.svg", "README.md"
NAME, WORD, CELL, ROW = 262, 122, 38, 19
"""Widths of the columns and height of a row, in pixels."""
MARGIN, HEAD = 10, 34
MAX_LABEL = 36
"""Most columns of text of a name."""
_LEGEND = ("unsafe", "wrong-content", "wrong-accept", "wrong-reject", "deviation", "late-reject",
    "not-strict", "unsupported", "choice", "pass", "not asked")  # fmt: skip


def publication(
    records: Sequence[RunRecord], manifest: Manifest, known: Mapping[int, Sequence[Known]] | None = None
) -> dict[str, str]:
    """Return path -> text of everything that is published about some runs.

    Args:
        records: runs of any implementations.
        manifest: the corpus that they used.
        known: position of a record -> entries of its baseline.

    Raises:
        AuditError: there is no run.
    """
    known = known or {}
    out = {JSON: build_report(records, manifest, known=known, public=True)}
    by_name: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        by_name.setdefault(str(record.implementation["name"]), []).append(i)
    for name, numbers in by_name.items():
        entries = {new: known[i] for new, i in enumerate(numbers) if i in known}
        part = build_report([records[i] for i in numbers], manifest, known=entries, public=True)
        out[_free(slug(name), out)] = part
    return {path: report_text(report) for path, report in out.items()} | pages(out)


def _free(folder: str, taken: Mapping[str, Report]) -> str:
    """Return the path of a project's report; names that look alike get a number."""
    number, path = 1, f"{folder}/{JSON}"
    while path in taken:
        number += 1
        path = f"{folder}-{number}/{JSON}"
    return path


def pages(reports: Mapping[str, Report]) -> dict[str, str]:
    """Return path -> text of everything that is made of published reports, which are given by path.

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
    out = {
        f"{PurePosixPath(path).parent}/{PAGE}": report_html(report, home=f"../{INDEX}")
        for path, report in reports.items()
        if path != JSON
    }
    out[INDEX] = report_html(whole, places=places)
    out[PICTURE] = comparison_svg(whole)
    out[README] = render(
        "published.md",
        report=whole,
        places=places,
        sentences=sentences(whole),
        standing=standing(whole),
        INDEX=INDEX,
        JSON=JSON,
        PAGE=PAGE,
        PICTURE=PICTURE,
    )
    return out


def published(folder: Path) -> dict[str, Report]:
    """Return the reports in a folder by path. Raises AuditError for what is no report."""
    paths = [folder / JSON, *sorted(folder.glob(f"*/{JSON}"))]
    return {path.relative_to(folder).as_posix(): load_report(path) for path in paths}


def sentences(report: Report) -> list[str]:
    """Return three sentences about a comparison that keep nobody from seeing what it does not say."""
    whos = report.implementations
    day = max((run.started or "")[:10] for run in report.run.runs)
    others = [who for who in whos if who.name != OWN]
    clean = [who.label for who in others if not any(who.counts.get(k) for k in STRICT_FAILING)]
    accept, content, refuse = (
        sum(bool(who.counts.get(kind)) for who in others)
        for kind in ("wrong-accept", "wrong-content", "wrong-reject")
    )
    projects = len({who.name for who in others})
    return [
        (
            f"Of {len(others):,} entry points of {projects:,} projects, run on {day} over up to "
            f"{report.corpus.cases:,} cases each, {accept:,} accept files that the format forbids, "
            f"{content:,} report content that is not the file's or write files that are not what was given, "
            f"{refuse:,} refuse files that it allows, and {_nothing(clean)}."
        ),
        (
            "A cell shows the worst that was seen in an area of rules, so that one case in a hundred colours "
            "it, and an area that a program was not asked about says nothing of it."
        ),
        (
            "Crashes, hangs and endless memory colour no cell, because those without a public report are "
            "held back, and the reference is our own, written from the same rules as the corpus: no row here "
            "is a clean bill."
        ),
    ]


def _nothing(clean: Sequence[str]) -> str:
    if not clean:
        return "every one does at least one of these"
    shows = "shows" if len(clean) == 1 else "show"
    return f"{len(clean):,} {shows} nothing of this kind ({listed(list(clean), 4)})"


def stale(folder: Path, texts: Mapping[str, Any]) -> list[Path]:
    """Return the published reports in a folder of implementations that are not among ``texts``."""
    found = [*folder.glob(f"*/{JSON}"), *folder.glob(f"*/{PAGE}")]
    return sorted(path for path in found if path.relative_to(folder).as_posix() not in texts)


def comparison_svg(report: Report) -> str:
    """Return the picture of a report's implementations as an SVG document, ending in a line break."""
    rows = standing(report)
    areas = [(row.area, row.title) for row in report.matrix]
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
        parts.append(f'<text x="{MARGIN}" y="{y + 14}">{escape(fitted(who.label, MAX_LABEL))}</text>')
        parts.append(_cell(MARGIN + NAME, y, WORD, WORD_STYLE[who.word], who.word))
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
