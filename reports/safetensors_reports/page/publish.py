"""The published reports: a page of each implementation, one that compares all, a picture and an index."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import STRICT_FAILING

from ..audit.build import build_report, report_text
from ..audit.disclosure import OWN
from ..audit.inputs import REPORT, AuditError, load_report
from ..templates import render
from ..text import listed, slug, visible
from .coverage import standing
from .html import report_html
from .overview_svg import comparison_svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from safetensors_corpus import Manifest

    from ..audit.build import Report
    from ..audit.inputs import Known
    from ..record.run import RunRecord

JSON, PAGE, INDEX, PICTURE, README = REPORT, "report.html", "index.html", "comparison.svg", "README.md"


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
    out: dict[str, str] = {}
    whole = build_report(records, manifest, known=known, public=True)
    out[JSON] = report_text(whole)
    by_name: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        by_name.setdefault(str(record.implementation["name"]), []).append(i)
    for name, numbers in by_name.items():
        entries = {new: known[i] for new, i in enumerate(numbers) if i in known}
        part = build_report([records[i] for i in numbers], manifest, known=entries, public=True)
        out[_free(slug(name), out)] = report_text(part)
    return out | pages(out)


def _free(folder: str, taken: Mapping[str, str]) -> str:
    """Return the path of a project's report; names that look alike get a number."""
    number, path = 1, f"{folder}/{JSON}"
    while path in taken:
        number += 1
        path = f"{folder}-{number}/{JSON}"
    return path


def pages(texts: Mapping[str, str]) -> dict[str, str]:
    """Return path -> text of everything that is made of published reports, which are given by path.

    Raises:
        AuditError: the report about all tells of an implementation that has none of its own.
    """
    reports: dict[str, Report] = {path: json.loads(text) for path, text in texts.items()}
    whole = reports[JSON]
    places = {
        who["label"]: f"{PurePosixPath(path).parent}/{PAGE}"
        for path, report in reports.items()
        if path != JSON
        for who in report["implementations"]
    }
    lost = [who["label"] for who in whole["implementations"] if who["label"] not in places]
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


def published(folder: Path) -> dict[str, str]:
    """Return path -> text of the reports in a folder. Raises AuditError for what is no report."""
    found = {}
    for path in [folder / JSON, *sorted(folder.glob(f"*/{JSON}"))]:
        # A report in another encoding is none that stc publish wrote; its numbers are the same.
        found[path.relative_to(folder).as_posix()] = report_text(load_report(path))
    return found


def sentences(report: Report) -> list[str]:
    """Return three sentences about a comparison that keep nobody from seeing what it does not say."""
    whos = report["implementations"]
    day = max((run["started"] or "")[:10] for run in report["run"]["runs"])
    others = [who for who in whos if who["name"] != OWN]
    clean = [who["label"] for who in others if not any(who["counts"].get(k) for k in STRICT_FAILING)]
    accept, content, refuse = (
        sum(bool(who["counts"].get(kind)) for who in others)
        for kind in ("wrong-accept", "wrong-content", "wrong-reject")
    )
    projects = len({who["name"] for who in others})
    return [
        (
            f"Of {len(others):,} entry points of {projects:,} projects, run on {day} over up to "
            f"{report['corpus']['cases']:,} cases each, {accept:,} accept files that the format forbids, "
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
