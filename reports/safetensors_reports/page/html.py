"""Render a report as one HTML file that works offline, is accessible and printable, and needs no scripts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from safetensors_corpus.field_bugs import reference_url
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reference.rules.pages import WHITESPACE

from .. import labels as words
from ..audit.disclosure import OWN
from ..audit.report import Implementation, Report
from ..audit.tally import FINE, HELD, fine_words, not_known, tally, tally_sentence
from ..case_evidence import Where
from ..history.releases import MAX_NAMED, TURNS, Passage
from ..record.device_checks import CHECKS
from ..text import listed, visible
from . import sections
from .agreement import agreement
from .cards import card_parts, tables
from .design import MAX_TEXT, render_markup, style_sheet

MAX_CAUSES, MAX_CASES = 6, 60
"""Maximum number of causes on a card, and of cases in a finding."""


def report_html(report: Report, previous: Report | None = None, *, home: str = "", dispute: str = "") -> str:
    blocks = sections.blocks(report)
    # Redacted findings are listed as causes, except those that only fuzzing found.
    detailed = [b for b in blocks if b.shown or not report.public or not all(m.case_count for m in b.members)]
    labels = [who.label for who in report.implementations]
    seen = {kind for who in report.implementations for kind in who.counts}
    withheld = FINE | ({"unsafe"} - seen) if report.public else set()
    return str(
        _page(
            "page.html",
            report,
            home=home,
            dispute=dispute,
            numbers={label: str(i) for i, label in enumerate(labels)},
            places={},
            title=labels[0] if len(labels) == 1 else f"{len(labels):,} implementations of safetensors",
            tables=tables(report),
            areas=sections.areas(report),
            blocks=detailed,
            held=sum(len(block.members) for block in blocks) - sum(len(block.members) for block in detailed),
            causes=sections.causes(report),
            columns=[k for k, kind in words.KINDS.items() if kind.head and k not in withheld],
            levels=sections.by_severity(detailed),
            grid=sections.grid(report),
            choices=sections.choices(report),
            expected=sections.expected_failures(report),
            slowest=sections.costly(report, "slowest", "wall_ms"),
            hungriest=sections.costly(report, "hungriest", "peak_bytes"),
            changes=sections.changes(report, previous),
            commands=sections.commands(report),
        )
    )


def comparison_html(report: Report, places: Mapping[str, str], sentences: Sequence[str], dispute: str) -> str:
    return str(
        _page(
            "comparison.html",
            report,
            places=places,
            sentences=sentences,
            dispute=dispute,
            tables=tables(report),
            broken=sections.broken_rules(report),
        )
    )


def comparison_markup(report: Report, places: Mapping[str, str], dispute: str = "") -> Markup:
    return _render("_comparison.html", tables=tables(report), places=places, dispute=dispute)


def card_markup(report: Report, who: Implementation, place: str = "", dispute: str = "") -> Markup:
    return _render("card.html", report=report, who=who, place=place, dispute=dispute)


def release_changes(passage: Passage) -> Markup:
    return render_markup("_passage.html", passage=passage, TURNS=TURNS, NAMED=MAX_NAMED)


def _page(template: str, report: Report, **values: Any) -> Markup:
    script = (files(__package__) / "templates" / "page.js").read_text("utf-8")
    return _render(
        template,
        report=report,
        whos=report.implementations,
        many=len(report.implementations) > 1,
        fine=fine_words(report),
        agreement=agreement(report),
        css=style_sheet("base", "verdicts", "page", "comparison_table", "layout"),
        script=Markup(script),  # noqa: S704 - our own
        # Allow only this script to run, so that no text from a file is run as a script.
        allowed=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        **values,
    )


def _render(template: str, **values: Any) -> Markup:
    return render_markup(
        template,
        CASES=MAX_CASES,
        CAUSES=MAX_CAUSES,
        CHECKS=CHECKS,
        HELD=HELD,
        OWN=OWN,
        WHITESPACE=WHITESPACE,
        card_parts=card_parts,
        kind_of=kind_of,
        lines=_lines,
        listed=listed,
        not_known=not_known,
        place_of=_place,
        reference_url=reference_url,
        tally=tally,
        tally_sentence=tally_sentence,
        words=words,
        **values,
    )


def _lines(text: str) -> Markup:
    return Markup("\n").join(visible(line, MAX_TEXT) for line in text.split("\n"))


def _place(where: Where) -> str:
    start, end = where.start, where.end
    spot = f"byte {start:,}" if end <= start + 1 else f"bytes {start:,}..{end - 1:,}"
    return f"{spot}, {where.path}" if where.path else spot
