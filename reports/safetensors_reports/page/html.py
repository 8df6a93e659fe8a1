"""Render a report as one HTML file that works offline, is accessible and printable, and needs no scripts."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from jinja2 import Environment
from markupsafe import Markup

from safetensors_corpus.field_bugs import reference_url
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reference.rules.pages import WHITESPACE

from ..audit.delta import Delta, baseline_delta, report_delta
from ..audit.disclosure import OWN
from ..audit.report import LETTERS, CauseRow, ChoiceText, Costly, ExpectedRow, Implementation, Report
from ..audit.tally import FINE, HELD, fine_words, tally, tally_sentence
from ..case_evidence import Where
from ..history.releases import MAX_NAMED, TURNS, Passage
from ..record.device_checks import CHECKS
from ..text import listed, visible
from . import coverage as support
from . import findings as finding_blocks
from . import labels as words
from .agreement import agreement
from .cards import Card, card
from .comparison import tables
from .design import MAX_TEXT, environment, style_sheet

_UNDECIDED = {"pass": "no clear answer", "choice-inconsistent": "contradicts itself"}
"""Labels for the verdicts on a choice that have no option."""
MAX_COSTLY = 10
MAX_CAUSES, MAX_CAUSES_OF_MANY = 60, 20
"""Maximum number of causes per implementation, for pages with one implementation and with several."""


class Option(NamedTuple):
    """An option that ``number`` implementations took; ``who`` is empty in a report on a single one."""

    option: str
    meaning: str
    number: int
    who: str


def choices(report: Report) -> list[tuple[ChoiceText, list[Option]]]:
    out = []
    for name, about in report.choices.items():
        taken: dict[str, list[str]] = {}
        for who in report.implementations:
            for row in who.choices:
                if row.choice == name:
                    # Several options, separated by bars, may fit.
                    option = row.option.replace("|", " or ") or _UNDECIDED.get(row.verdict, row.verdict)
                    taken.setdefault(option, []).append(who.label)
        many = len(report.implementations) > 1
        rows = [
            Option(option, about.options.get(option, ""), len(labels), listed(labels, 6) if many else "")
            for option, labels in sorted(taken.items(), key=lambda item: (-len(item[1]), item[0]))
        ]
        if rows:
            out.append((about, rows))
    return out


def causes(report: Report) -> list[tuple[Implementation, list[CauseRow]]]:
    whos = report.implementations
    limit = MAX_CAUSES if len(whos) == 1 else MAX_CAUSES_OF_MANY
    return [(who, who.causes[:limit]) for who in whos if who.causes]


class FailureReason(NamedTuple):
    """Group of expected failures with the same reason."""

    label: str
    state: str
    why: str
    issue: str
    review: str


def expected_failures(report: Report) -> list[tuple[FailureReason, list[ExpectedRow]]]:
    by_reason: dict[FailureReason, list[ExpectedRow]] = {}
    for who in report.implementations:
        for row in who.expected_failures:
            key = FailureReason(who.label, row.state, row.why, row.issue, row.review_by or "")
            by_reason.setdefault(key, []).append(row)
    states = ("passes", "no verdict", "fails")

    def order(item: tuple[FailureReason, list[ExpectedRow]]) -> tuple[int, str, str, str]:
        reason, rows = item
        return states.index(reason.state), reason.review or "9999", reason.label, rows[0].case

    return sorted(by_reason.items(), key=order)


def costly(
    report: Report, part: Literal["slowest", "hungriest"], measure: str
) -> list[tuple[str, Costly, float]]:
    rows = [
        (run.implementation, row, getattr(row, measure))
        for run in report.run.runs
        for row in (run.slowest if part == "slowest" else run.hungriest) or ()
    ]
    return sorted(rows, key=lambda r: (-r[2], r[1].case, r[0]))[:MAX_COSTLY]


def changes(report: Report, previous: Report | None) -> tuple[str, Delta] | None:
    if previous is not None:
        return "an older report", report_delta(report, previous)
    delta = baseline_delta(report)
    return None if delta is None else ("the baselines", delta)


def commands(report: Report) -> Iterator[str]:
    for who in report.implementations:
        words = ["stc", "run", "--impl", who.selector]
        words += ["--profile", who.profile] if who.profile else []
        words += [] if "heavy" in who.not_asked or report.public else ["--heavy"]
        words += [] if who.baseline else ["--no-baseline"]
        yield shlex.join([*words, "--report", "runs"])
    yield "stc report runs -o audit --html" + (" --public" if report.public else "")


def report_html(report: Report, previous: Report | None = None, *, home: str = "", dispute: str = "") -> str:
    blocks = finding_blocks.blocks(report)
    # Redacted findings are listed as causes, except those that only fuzzing found.
    detailed = [b for b in blocks if b.shown or not report.public or not all(m.case_count for m in b.members)]
    labels = [one.label for one in report.implementations]
    template = _environment().get_template("page.html")
    seen = {kind for who in report.implementations for kind in who.counts}
    reported = {"unsafe"} - seen if report.public else set()
    return template.render(
        report=report,
        home=home,
        dispute=dispute,
        whos=report.implementations,
        many=len(report.implementations) > 1,
        numbers={who.label: str(i) for i, who in enumerate(report.implementations)},
        title=labels[0] if len(labels) == 1 else f"{len(labels):,} implementations of safetensors",
        cards=[card(report, who) for who in report.implementations],
        tables=tables(report),
        areas=support.areas(report),
        blocks=detailed,
        held=sum(len(block.members) for block in blocks) - sum(len(block.members) for block in detailed),
        causes=causes(report),
        fine=fine_words(report),
        columns=[(k, head) for k, head in words.COLUMNS if not report.public or k not in FINE | reported],
        levels=list(finding_blocks.by_severity(detailed)),
        grid=finding_blocks.grid(report),
        agreement=agreement(report),
        choices=choices(report),
        expected=expected_failures(report),
        slowest=costly(report, "slowest", "wall_ms"),
        hungriest=costly(report, "hungriest", "peak_bytes"),
        changes=changes(report, previous),
        commands=list(commands(report)),
        **_assets(),
    )


def comparison_html(report: Report, places: Mapping[str, str], sentences: Sequence[str], dispute: str) -> str:
    return (
        _environment()
        .get_template("comparison.html")
        .render(
            report=report,
            places=places,
            sentences=sentences,
            dispute=dispute,
            whos=report.implementations,
            many=len(report.implementations) > 1,
            tables=tables(report, places),
            broken=support.broken_rules(report),
            agreement=agreement(report),
            **_assets(),
        )
    )


def comparison_markup(report: Report, places: Mapping[str, str], dispute: str = "") -> Markup:
    template = _environment().get_template("_comparison.html")
    return Markup(template.render(tables=tables(report, places), dispute=dispute))  # noqa: S704 - escaped


def card_markup(shown: Card, place: str = "", dispute: str = "") -> Markup:
    template = _environment().from_string(
        '{% import "_card.html" as c with context %}{{ c.whole(card, place, dispute) }}'
    )
    return Markup(template.render(card=shown, place=place, dispute=dispute))  # noqa: S704 - escaped as above


def release_changes(passage: Passage) -> Markup:
    template = _environment().get_template("_passage.html")
    return Markup(template.render(passage=passage, TURNS=TURNS, NAMED=MAX_NAMED))  # noqa: S704 - escaped


def _assets() -> dict[str, Any]:
    script = (files(__package__) / "templates" / "page.js").read_text("utf-8")
    # Allow only this script to run, so that no text from a file is run as a script.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "css": style_sheet("verdicts", "page", "compare", "layout"),
        "script": Markup(script),  # noqa: S704 - our own
        "allowed": allowed,
    }


@cache
def _environment() -> Environment:
    made = environment()
    made.globals |= {
        "LETTERS": LETTERS,
        "words": words,
        "PROMISES": CHECKS,
        "kind_of": kind_of,
        "reference_url": reference_url,
        "HELD": HELD,
        "tally": tally,
        "numbers_told": tally_sentence,
        "CASES": finding_blocks.MAX_CASES,
        "case_words": finding_blocks.case_words,
        "listed": listed,
        "OWN": OWN,
        "WHITESPACE": WHITESPACE,
    }
    made.filters |= {"lines": _lines, "place": _place}
    return made


def _lines(text: str) -> Markup:
    return Markup("\n").join(visible(line, MAX_TEXT) for line in text.split("\n"))


def _place(where: Where) -> str:
    start, end = where.start, where.end
    spot = f"byte {start:,}" if end <= start + 1 else f"bytes {start:,}..{end - 1:,}"
    return f"{spot}, {where.path}" if where.path else spot
