"""Render a report as one HTML file that works offline, is accessible and printable, and needs no scripts."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple

from markupsafe import Markup
from msgspec.structs import replace

from safetensors_corpus.field_bugs import reference_url
from safetensors_corpus.judging.verdicts import STRICT_FAILING, kind_of
from safetensors_reference.rules.pages import WHITESPACE

from .. import labels as words
from ..audit.disclosure import OWN
from ..audit.report import (
    AreaCells,
    CauseRow,
    ChoiceText,
    Costly,
    ExpectedRow,
    Finding,
    Implementation,
    Report,
    RuleCells,
    Where,
)
from ..history.releases import MAX_NAMED, TURNS, Passage
from ..labels import LETTERS
from ..record.device_checks import CHECKS
from ..severity import NOT_KNOWN
from ..text import listed, report_key, slug, visible
from .agreement import agreement
from .design import MAX_TEXT, environment, style_sheet
from .file_svg import layout_svg
from .results import (
    FINE,
    HELD,
    Delta,
    baseline_delta,
    card_parts,
    fine_words,
    not_known,
    report_delta,
    tables,
    tally,
    tally_sentence,
)

MAX_ON_CARD, MAX_CASES = 6, 60
"""Maximum number of causes on a card, and of cases in a finding."""
MAX_EMBEDDED = 4 << 10
MAX_COSTLY = 10
MAX_CAUSES, MAX_CAUSES_OF_MANY = 60, 20
"""Maximum number of causes per implementation, for pages with one implementation and with several."""
_UNDECIDED = {"pass": "no clear answer", "choice-inconsistent": "contradicts itself"}
"""Labels for the verdicts on a choice that have no option."""


class Reference(NamedTuple):
    """A public report; ``current`` says whether it is about the tested version."""

    name: str
    url: str | None
    current: bool = False


@dataclass
class Block:
    """One rule that is broken in one way; ``shown`` is None if all findings are withheld."""

    anchor: str
    rule: str
    verdict: str
    members: list[Finding]
    shown: Finding | None = None
    drawing: Markup | None = None
    drawn_at: str = ""
    download: str = ""
    references: list[Reference] = field(default_factory=list)

    @property
    def severity(self) -> str:
        return self.members[0].severity

    @property
    def title(self) -> str:
        if len(self.members) == 1:
            return self.members[0].title
        count = f"{len(self.members):,} implementations"
        first = self.shown or self.members[0]
        if first.redacted:
            return f"{self.verdict}, {self.rule}: {count}"
        predicate = first.title.removeprefix(first.implementation).strip()
        return f"{predicate[:1].upper()}{predicate[1:]}: {count}"


def blocks(report: Report) -> list[Block]:
    order, verdicts = list(report.scales.severity), list(report.scales.verdict)
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault((finding.rule or NOT_KNOWN, finding.verdict), []).append(finding)
    out = [Block(slug(f"{rule}-{kind}"), rule, kind, found) for (rule, kind), found in groups.items()]
    out.sort(key=lambda b: (order.index(b.severity), verdicts.index(b.verdict), b.rule))
    drawn: dict[str, str] = {}
    for block in out:
        block.shown = _speaking(block.members)
        block.references = _references(block.members)
        evidence = block.shown.evidence if block.shown else None
        if evidence and evidence.input in report.inputs and evidence.size <= MAX_EMBEDDED:
            data = report.inputs[evidence.input]
            block.download = f"data:application/octet-stream;base64,{data}"
            block.drawn_at = drawn.setdefault(evidence.input, block.anchor)
            if block.drawn_at == block.anchor:
                name = f"{evidence.case.rpartition('/')[2]}.safetensors"
                # The drawing escapes all text from the file.
                block.drawing = Markup(layout_svg(base64.b64decode(data), name=name, style=False))  # noqa: S704
    return out


def _speaking(members: Sequence[Finding]) -> Finding | None:
    visible = [(m, m.evidence.size) for m in members if m.evidence is not None]
    if not visible:
        return None
    worst = [(m, size) for m, size in visible if m.severity == visible[0][0].severity]
    shared = Counter(m.fingerprint for m, _ in worst)
    return min(worst, key=lambda pair: (-shared[pair[0].fingerprint], pair[1] == 0, pair[1], pair[0].id))[0]


def _references(members: Sequence[Finding]) -> list[Reference]:
    references: dict[str, Reference] = {}
    for member in members:
        # The short form of a report comes before its address and is the name that is shown for both.
        for row in sorted(member.references, key=lambda r: r.reference.startswith("https://")):
            key, name = report_key(row.reference), row.reference
            entry = references.get(key) or Reference(name, reference_url(name))
            references[key] = entry._replace(current=entry.current or row.current)
    return sorted(references.values(), key=lambda row: row.name)


def grid(report: Report) -> list[tuple[str, list[int]]]:
    numbers = Counter((f.severity, f.difficulty) for f in report.findings)
    scales = report.scales
    return [(s, [numbers[s, d] for d in scales.difficulty]) for s in scales.severity]


class Area(NamedTuple):
    """An area of rules, worst rules first; ``failed`` contains the failing cases by rule, with verdicts."""

    row: AreaCells
    rules: list[RuleCells]
    broken: int
    failed: list[tuple[str, list[tuple[str, list[str]]]]]
    failed_cases: int
    others: int


def areas(report: Report) -> list[Area]:
    kinds = {letter: kind for kind, letter in LETTERS.items()}
    bad: dict[str, list[tuple[str, list[str]]]] = {}
    others: Counter[str] = Counter()
    for case in report.cases.rows:
        verdicts = [kinds[letter] for letter in case.verdicts]
        if STRICT_FAILING.isdisjoint(verdicts):
            others[case.rule] += 1
        else:
            bad.setdefault(case.rule, []).append((case.case, verdicts))
    out = []
    for whole in report.matrix:
        row = _claimed(whole, report)
        rules = sorted(row.rules, key=_badness)
        broken = sum(not STRICT_FAILING.isdisjoint(rule.worst) for rule in rules)
        failed = [(rule.rule, bad[rule.rule]) for rule in rules if rule.rule in bad]
        cases = sum(len(rows) for _, rows in failed)
        out.append(Area(row, rules, broken, failed, cases, sum(others[rule.rule] for rule in rules)))
    return sorted(out, key=lambda area: _badness(area.row))


def _claimed(area: AreaCells, report: Report) -> AreaCells:
    """Return an area without the verdicts of programs that do not claim to support it."""
    claims = [all(area.area not in role.unclaimed for role in who.roles) for who in report.implementations]

    def kept(row: AreaCells | RuleCells) -> list[str | None]:
        return [kind if claimed else None for kind, claimed in zip(row.worst, claims, strict=True)]

    return replace(area, worst=kept(area), rules=[replace(rule, worst=kept(rule)) for rule in area.rules])


def _badness(row: AreaCells | RuleCells) -> tuple[int, int]:
    order = list(LETTERS)
    ranks = sorted(order.index(kind or "not run") for kind in row.worst)
    return (ranks[0], -ranks.count(ranks[0])) if ranks else (len(order), 0)


def broken_rules(report: Report) -> list[tuple[AreaCells, list[tuple[RuleCells, list[str], list[str]]]]]:
    """Return rules with the programs that violate the written format, and those that break them otherwise."""
    against = {"wrong-content", "wrong-accept", "wrong-reject"}
    silent = STRICT_FAILING - against - {"unsafe", "harness-error"}
    labels = [who.label for who in report.implementations]
    out = []
    for area in (_claimed(area, report) for area in report.matrix):
        rows = []
        for rule in area.rules:
            verdicts = list(zip(labels, rule.worst, strict=True))
            named = [[label for label, kind in verdicts if kind in kinds] for kinds in (against, silent)]
            if any(named):
                rows.append((rule, named[0], named[1]))
        if rows:
            out.append((area, rows))
    return out


def choices(report: Report) -> list[tuple[ChoiceText, list[tuple[str, str, int, str]]]]:
    """Return the options taken for each choice: the option, its meaning, and who took it.

    The names are empty if the report is about only one implementation.
    """
    many = len(report.implementations) > 1
    out = []
    for name, about in report.choices.items():
        taken: dict[str, list[str]] = {}
        for who in report.implementations:
            for row in who.choices:
                if row.choice == name:
                    # Several options, separated by bars, may be compatible with the answers.
                    option = row.option.replace("|", " or ") or _UNDECIDED.get(row.verdict, row.verdict)
                    taken.setdefault(option, []).append(who.label)
        rows = [
            (option, about.options.get(option, ""), len(labels), listed(labels, 6) if many else "")
            for option, labels in sorted(taken.items(), key=lambda item: (-len(item[1]), item[0]))
        ]
        if rows:
            out.append((about, rows))
    return out


def causes(report: Report) -> list[tuple[Implementation, list[CauseRow]]]:
    whos = report.implementations
    limit = MAX_CAUSES if len(whos) == 1 else MAX_CAUSES_OF_MANY
    return [(who, who.causes[:limit]) for who in whos if who.causes]


def expected_failures(report: Report) -> list[tuple[tuple[str, ...], list[ExpectedRow]]]:
    """Group expected failures by label, state, reason, issue and review date."""
    by_reason: dict[tuple[str, ...], list[ExpectedRow]] = {}
    for who in report.implementations:
        for row in who.expected_failures:
            key = who.label, row.state, row.why, row.issue, row.review_by or ""
            by_reason.setdefault(key, []).append(row)
    states = ("passes", "no verdict", "fails")

    def order(item: tuple[tuple[str, ...], list[ExpectedRow]]) -> tuple[int, str, str, str]:
        (label, state, _, _, review), rows = item
        return states.index(state), review or "9999", label, rows[0].case

    return sorted(by_reason.items(), key=order)


def costly(report: Report, part: str, measure: str) -> list[tuple[str, Costly, float]]:
    runs = [(run.implementation, getattr(run, part) or ()) for run in report.run.runs]
    rows = [(label, row, getattr(row, measure)) for label, costs in runs for row in costs]
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
    every = blocks(report)
    # Redacted findings are listed as causes, except those that only fuzzing found.
    detailed = [b for b in every if b.shown or not report.public or not all(m.case_count for m in b.members)]
    labels = [who.label for who in report.implementations]
    seen = {kind for who in report.implementations for kind in who.counts}
    withheld = FINE | ({"unsafe"} - seen) if report.public else set()
    return _page(
        "report.html",
        report,
        home=home,
        dispute=dispute,
        numbers={label: str(i) for i, label in enumerate(labels)},
        places={},
        title=labels[0] if len(labels) == 1 else f"{len(labels):,} implementations of safetensors",
        areas=areas(report),
        blocks=detailed,
        held=sum(len(block.members) for block in every) - sum(len(block.members) for block in detailed),
        causes=causes(report),
        columns=[k for k, kind in words.KINDS.items() if kind.head and k not in withheld],
        levels=[(level, list(group)) for level, group in groupby(detailed, key=lambda b: b.severity)],
        grid=grid(report),
        choices=choices(report),
        expected=expected_failures(report),
        slowest=costly(report, "slowest", "wall_ms"),
        hungriest=costly(report, "hungriest", "peak_bytes"),
        changes=changes(report, previous),
        commands=commands(report),
    )


def comparison_html(report: Report, places: Mapping[str, str], sentences: Sequence[str], dispute: str) -> str:
    return _page(
        "comparison.html",
        report,
        places=places,
        sentences=sentences,
        dispute=dispute,
        broken=broken_rules(report),
    )


def comparison_markup(report: Report, places: Mapping[str, str], dispute: str = "") -> Markup:
    return _part("comparison", tables(report), places, dispute)


def card_markup(report: Report, who: Implementation, place: str = "", dispute: str = "") -> Markup:
    return _part("card", who, place, dispute, report=report)


def release_changes(passage: Passage) -> Markup:
    return _part("changes", passage)


def _page(template: str, report: Report, **values: Any) -> str:
    script = (files(__package__) / "templates" / "page.js").read_text("utf-8")
    page = environment().get_template(template)
    return page.render(
        _NAMES,
        report=report,
        whos=report.implementations,
        many=len(report.implementations) > 1,
        fine=fine_words(report),
        tables=tables(report),
        agreement=agreement(report) if len(report.implementations) > 1 else None,
        css=style_sheet("base", "verdicts", "page", "comparison_table", "layout"),
        script=Markup(script),  # noqa: S704 - our own
        # Allow only this script to run, so that no text from a file is run as a script.
        allowed=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        **values,
    )


def _part(name: str, *given: Any, **values: Any) -> Markup:
    parts = environment().get_template("parts.html").make_module(_NAMES | values)
    return Markup(getattr(parts, name)(*given))  # noqa: S704 - it escapes


def _lines(text: str) -> Markup:
    return Markup("\n").join(visible(line, MAX_TEXT) for line in text.split("\n"))


def _place(where: Where) -> str:
    start, end = where.start, where.end
    spot = f"byte {start:,}" if end <= start + 1 else f"bytes {start:,}..{end - 1:,}"
    return f"{spot}, {where.path}" if where.path else spot


_NAMES = {
    "CASES": MAX_CASES,
    "CAUSES": MAX_ON_CARD,
    "CHECKS": CHECKS,
    "HELD": HELD,
    "NAMED": MAX_NAMED,
    "OWN": OWN,
    "TURNS": TURNS,
    "WHITESPACE": WHITESPACE,
    "card_parts": card_parts,
    "kind_of": kind_of,
    "lines": _lines,
    "listed": listed,
    "not_known": not_known,
    "place_of": _place,
    "reference_url": reference_url,
    "tally": tally,
    "tally_sentence": tally_sentence,
    "words": words,
}
"""Names that the templates of the pages use."""
