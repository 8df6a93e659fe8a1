"""One report as one HTML file: no network, readable without scripts, in print, by keyboard and by ear."""

from __future__ import annotations

import base64
import hashlib
import shlex
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from safetensors_corpus.field_bugs import reference_url
from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reference.rules.pages import WHITESPACE

from ..audit.delta import Delta, baseline_delta, report_delta
from ..audit.disclosure import OWN
from ..audit.report import LETTERS
from ..audit.tally import FINE, HELD, fine_words, tally, tally_sentence
from ..drawing.canvas import STYLE
from ..history.releases import MAX_NAMED, TURNS
from ..record.device_checks import CHECKS
from ..text import listed, plural, visible
from . import coverage as support
from . import findings as found
from . import labels as words
from .agreement import agreement
from .cards import Card, card
from .comparison import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..audit.report import CauseRow, ChoiceText, Costly, ExpectedRow, Implementation, Report, Where
    from ..history.releases import Passage

_UNDECIDED = {"pass": "no answer that tells", "choice-inconsistent": "contradicts itself"}
"""Verdict on a choice without an option -> words."""
MAX_COSTLY = 10
"""Most cases listed as slowest, and as hungriest."""
MAX_CAUSES, MAX_CAUSES_OF_MANY = 60, 20
"""Most causes shown of one implementation, alone on its page and among others."""


class Option(NamedTuple):
    """An option that implementations took: its meaning, how many they are, and who, where there are many."""

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
                if row.choice != name:
                    continue
                # Where several options fit what was seen, all of them stand between bars.
                taken.setdefault(
                    row.option.replace("|", " or ") or _UNDECIDED.get(row.verdict, row.verdict), []
                ).append(who.label)
        many = len(report.implementations) > 1
        rows = [
            Option(option, about.options.get(option, ""), len(labels), listed(labels, 6) if many else "")
            for option, labels in sorted(taken.items(), key=lambda item: (-len(item[1]), item[0]))
        ]
        if rows:
            out.append((about, rows))
    return out


def causes(report: Report) -> list[tuple[Implementation, list[CauseRow]]]:
    """Return the implementations that have causes, with those of each that are shown."""
    whos = report.implementations
    limit = MAX_CAUSES if len(whos) == 1 else MAX_CAUSES_OF_MANY
    return [(who, who.causes[:limit]) for who in whos if who.causes]


class FailureReason(NamedTuple):
    """What expected failures were entered for: of whom, what became of them, why, the report and a date."""

    label: str
    state: str
    why: str
    issue: str
    review: str


def expected_failures(report: Report) -> list[tuple[FailureReason, list[ExpectedRow]]]:
    """Return the expected failures, those together that were entered for one reason, overdue ones first."""
    found: dict[FailureReason, list[ExpectedRow]] = {}
    for who in report.implementations:
        for row in who.expected_failures:
            key = FailureReason(who.label, row.state, row.why, row.issue, row.review_by or "")
            found.setdefault(key, []).append(row)
    states = ("passes", "no verdict", "fails")
    return sorted(
        found.items(),
        key=lambda item: (
            states.index(item[0].state),
            item[0].review or "9999",
            item[0].label,
            item[1][0].case,
        ),
    )


def costly(
    report: Report, part: Literal["slowest", "hungriest"], measure: str
) -> list[tuple[str, Costly, float]]:
    """Return the costliest cases of all runs, each with the label of the run and what it cost.

    Args:
        report: the report.
        part: of the runs.
        measure: field of its rows that tells the cost.
    """
    rows = [
        (run.implementation, row, getattr(row, measure))
        for run in report.run.runs
        for row in (run.slowest if part == "slowest" else run.hungriest) or ()
    ]
    return sorted(rows, key=lambda r: (-r[2], r[1].case, r[0]))[:MAX_COSTLY]


def changes(report: Report, previous: Report | None) -> tuple[str, Delta] | None:
    """Return what a report is held against and what changed; None without anything to compare with."""
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


MAX_TEXT = 2_000
"""Most characters of one text on the page."""


def report_html(
    report: Report,
    previous: Report | None = None,
    *,
    home: str = "",
    dispute: str = "",
) -> str:
    """Return the page of a report, a pure function of it.

    Args:
        report: the report.
        previous: an older one to tell changes from; without one the baselines serve.
        home: address of the page that compares all reports; empty for none.
        dispute: address of where to disagree; empty for none.
    """
    blocks = found.blocks(report)
    # What is told by verdict and rule alone stands among the causes, but for what fuzzing alone has found.
    told = [b for b in blocks if b.shown or not report.public or not all(m.case_count for m in b.members)]
    template = _environment().get_template("page.html")
    return template.render(
        report=report,
        home=home,
        dispute=dispute,
        whos=report.implementations,
        many=len(report.implementations) > 1,
        numbers={who.label: str(i) for i, who in enumerate(report.implementations)},
        title=_title(report),
        cards=[card(report, who) for who in report.implementations],
        tables=tables(report),
        areas=support.areas(report),
        blocks=told,
        held=sum(len(block.members) for block in blocks) - sum(len(block.members) for block in told),
        causes=causes(report),
        fine=fine_words(report),
        columns=_columns(report),
        levels=list(found.by_severity(told)),
        grid=found.grid(report),
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
    """Return the page that compares the implementations of a report, a pure function of it.

    Args:
        report: the report.
        places: label of an implementation -> address of its own page.
        sentences: what the comparison says, in words.
        dispute: address of where to disagree; empty for none.
    """
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
    """Return the tables of a comparison, with cards where there is no room for them, to stand in any page.

    ``compare_css`` is their style.
    """
    text = (
        _environment().get_template("_comparison.html").render(tables=tables(report, places), dispute=dispute)
    )
    return Markup(text)  # noqa: S704 - made by a template that escapes


def card_markup(shown: Card, place: str = "", dispute: str = "") -> Markup:
    """Return a card to stand in any page; ``compare_css`` is its style.

    Args:
        shown: what ``cards.card`` returned.
        place: address of the program's own report; empty for none.
        dispute: address of where to disagree; empty for none.
    """
    template = _environment().from_string(
        '{% import "_card.html" as c with context %}{{ c.whole(card, place, dispute) }}'
    )
    return Markup(template.render(card=shown, place=place, dispute=dispute))  # noqa: S704 - escaped as above


def release_changes(passage: Passage) -> Markup:
    """Return what one release changed, to stand in any page; ``history.releases`` finds passages."""
    template = _environment().get_template("_passage.html")
    return Markup(template.render(passage=passage, TURNS=TURNS, NAMED=MAX_NAMED))  # noqa: S704 - escaped


def compare_css() -> str:
    """Return the style of cards and comparisons; its variables and classes are its own."""
    return _asset("compare.css")


def _title(report: Report) -> str:
    labels = [who.label for who in report.implementations]
    return labels[0] if len(labels) == 1 else f"{len(labels):,} implementations of safetensors"


def _columns(report: Report) -> list[tuple[str, str]]:
    seen = {kind for who in report.implementations for kind in who.counts}
    reported = {"unsafe"} - seen if report.public else set()
    return [(k, head) for k, head in words.COLUMNS if not report.public or k not in FINE | reported]


def _asset(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text("utf-8")


def _assets() -> dict[str, Any]:
    script = _asset("page.js")
    # The page allows this script and nothing else to run, so that no text of a file can become one.
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "css": Markup(_colours() + _asset("page.css") + compare_css() + STYLE),  # noqa: S704 - our own
        "script": Markup(script),  # noqa: S704 - our own
        "allowed": allowed,
    }


def _colours() -> str:
    def variables(place: int) -> str:
        pairs = ((name[2:], c[place], c[place + 1]) for name, c in words.COLOURS.items())
        return "".join(f"--{name}-bg:{ground};--{name}-fg:{text};" for name, ground, text in pairs)

    classes = "".join(
        f".{name}{{background:var(--{name[2:]}-bg);color:var(--{name[2:]}-fg)}}" for name in words.COLOURS
    )
    night = f"@media (prefers-color-scheme:dark){{:root{{{variables(2)}}}}}"
    return f":root{{{variables(0)}}}\n{night}\n{classes}\n"


def _finalized(value: Any) -> Any:
    return visible(value, MAX_TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "LETTERS": LETTERS,
        "words": words,
        "plural": plural,
        "PROMISES": CHECKS,
        "kind_of": kind_of,
        "reference_url": reference_url,
        "HELD": HELD,
        "tally": tally,
        "numbers_told": tally_sentence,
        "CASES": found.MAX_CASES,
        "case_words": found.case_words,
        "listed": listed,
        "OWN": OWN,
        "WHITESPACE": WHITESPACE,
    }
    environment.filters |= {"n": "{:,}".format, "lines": _lines, "place": _place}
    return environment


def _lines(text: str) -> Markup:
    return Markup("\n").join(visible(line, MAX_TEXT) for line in text.split("\n"))


def _place(where: Where) -> str:
    start, end = where.start, where.end
    spot = f"byte {start:,}" if end <= start + 1 else f"bytes {start:,}..{end - 1:,}"
    return f"{spot}, {where.path}" if where.path else spot
