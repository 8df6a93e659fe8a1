"""Results of programs: counts of cases, cards and tables by role, and changes since an older report.

Red marks violations of the written format. Deviations from the official library or from our hardening are not
shown in red.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from safetensors_corpus.judging.verdicts import FAILING, VERDICTS, fails, kind_of

from ..audit.report import AnswerRow, CellRow, Implementation, Report, RoleRow
from ..labels import (
    ANSWER_WORDS,
    BASES,
    FAILURE_WORDS,
    FORBIDDEN,
    KEEPS_TO_TEXT,
    LAYOUT,
    NOTHING_SHOWN,
    QUESTIONS,
    REPEATED,
    REPEATED_KEYS,
    ROLES,
    TITLES,
    UNKNOWN,
)
from ..text import label_key, listed, plural

FINE = frozenset({"pass", "choice"})
WARNED = frozenset({"late-reject", "not-strict"})
UNSUPPORTED = "unsupported"
LOST = "harness-error"
FAILED = FAILING - {LOST}


class Tally(NamedTuple):
    """Case counts that add up to ``due``; in published reports, ``fine`` may include withheld cases."""

    due: int
    fine: int
    unsupported: int
    warned: int
    failed: int
    lost: int
    not_run: int


def tally(who: Implementation) -> Tally:
    warned, failed = (
        sum(number for kind, number in who.counts.items() if kind_of(kind) in kinds)
        for kinds in (WARNED, FAILED)
    )
    unsupported, lost = who.counts.get(UNSUPPORTED, 0), who.counts.get(LOST, 0)
    # Published reports do not count passes, so subtract everything else.
    fine = who.cases - unsupported - lost - warned - failed
    return Tally(who.due, fine, unsupported, warned, failed, lost, who.not_run)


def not_known(who: Implementation) -> str:
    left = tally(who).not_run
    if who.ended == "complete" and not left:
        return ""
    ended = "" if who.ended == "complete" else f" ({who.ended} run)"
    return f"Not fully known{ended}: {left:,} of {plural(who.due, 'case')} did not run."


def fine_words(report: Report) -> str:
    return "no fault shown" if report.public else "as expected"


def tally_sentence(report: Report, who: Implementation) -> str:
    counts = tally(who)
    others = {
        "unsupported": counts.unsupported,
        "with a recommendation not followed or a late rejection": counts.warned,
        "failed": counts.failed,
        "lost because the adapter failed": counts.lost,
        "not run": counts.not_run,
    }
    parts = [f"{counts.fine:,} {fine_words(report)}", *(f"{n:,} {words}" for words, n in others.items() if n)]
    return f"Of {plural(counts.due, 'case')}: {', '.join(parts)}."


HELD = (
    "A case counts under no fault shown if it passed, if it took one of several legitimate options, or if "
    "its result is withheld until there is a public report. No number on this page reveals how many cases "
    "are withheld, if any."
)

MAX_NAMED = 3
DISPUTE = "docs/disclosure.md#to-reach-us-to-disagree"
"""Page that explains how to dispute a result, as a path in the project."""
ADVICE = "not-strict"
RED = {"unsafe": "unsafe", "wrong-content": "content", "wrong-accept": "accept", "wrong-reject": "reject"}
"""Bar colour by verdict under the written format; all other verdicts have a neutral colour."""
_OPENS = frozenset({"reader", "lister", "device"})
"""Roles in which a program opens files to use their content."""
_REASONS = {
    "text": "",
    "official": " against the official library only",
    "ours": " against our hardening only",
}
"""Suffix of a number by basis."""
_DIFFERS = {"official": "differs from the official library", "ours": "falls short of our hardening"}


class Line(NamedTuple):
    """Results for one kind of input; ``tone`` is ``bad`` only for violations of the written format."""

    name: str
    words: str
    answer: str
    tone: str
    share: float


class Part(NamedTuple):
    """One role on a card; ``tone`` may also be ``mild`` for harmless violations of the written format."""

    role: str
    asks: str
    answer: str
    tone: str
    lines: list[Line]
    unclaimed: list[str]


class Bar(NamedTuple):
    """Failing cases of one basis: their number, percentage and colour (``RED``, ``calm`` or ``none``)."""

    failed: int
    share: float
    colour: str


class Cell(NamedTuple):
    """One area, or all areas if ``area`` is empty.

    ``bars`` is empty if there are no cases or if the program does not claim the area.
    """

    asked: int
    bars: list[Bar]
    text: str
    area: str = ""
    advice: int = 0


class Row(NamedTuple):
    """One program in one role; for each basis, ``words`` contains its worst result and a colour."""

    who: Implementation
    words: list[tuple[str, str]]
    every: Cell
    cells: list[Cell]
    part: Part


class Table(NamedTuple):
    """All programs in one role, in alphabetical order; ``areas`` maps areas with cases to their titles."""

    role: str
    areas: dict[str, str]
    rows: list[Row]

    @property
    def head(self) -> str:
        return ROLES[self.role].head

    @property
    def about(self) -> str:
        return ROLES[self.role].about


def tables(report: Report) -> list[Table]:
    titles = area_titles(report)
    out = []
    for name in ROLES:
        members = [(who, role) for who in report.implementations for role in who.roles if role.role == name]
        if members:
            asked = {cell.area for _, role in members for cell in role.cells}
            columns = {area: title for area, title in titles.items() if area in asked}
            members.sort(key=lambda pair: label_key(pair[0].label))
            out.append(Table(name, columns, [_row(who, role, columns, titles) for who, role in members]))
    return out


def area_titles(report: Report) -> dict[str, str]:
    return {row.area: row.title for row in report.matrix}


def _row(who: Implementation, role: RoleRow, columns: Mapping[str, str], titles: Mapping[str, str]) -> Row:
    by_area = {row.area: row for row in role.cells}
    cells = [
        _cell(by_area[area], title, area)
        if area in by_area and area not in role.unclaimed
        else Cell(0, [], f"{title}: not {'claimed' if area in role.unclaimed else 'asked'}", area)
        for area, title in columns.items()
    ]
    unknown = not_known(who)
    words = [(table_word(role, basis, unknown), _colour(role, basis)) for basis in BASES]
    return Row(who, words, _cell(role, "All areas"), cells, role_part(role, titles, unknown))


def _cell(row: CellRow | RoleRow, title: str, area: str = "") -> Cell:
    bars = []
    for basis in BASES:
        failed = failing_cases(row, basis)
        bars.append(Bar(failed, 100 * failed / row.asked if row.asked else 0.0, _colour(row, basis)))
    text = f"{title}: {bars[0].failed:,} of {row.asked:,} cases against the text"
    for bar, reason in zip(bars[1:], ("unlike the official library", "short of our hardening"), strict=True):
        text += f", {bar.failed:,} {reason}" if bar.failed else ""
    if missed := advice(row):
        text += f", {missed:,} recommendations of the text not followed"
    return Cell(row.asked, bars, text, area, missed)


def _colour(row: CellRow | RoleRow, basis: str) -> str:
    if not failing_cases(row, basis):
        return "none"
    kind = _worst(_failed(row, basis))
    return RED.get(kind, "calm") if basis == "text" or kind == "unsafe" else "calm"


def card_parts(report: Report, who: Implementation) -> list[Part]:
    return [role_part(role, area_titles(report), not_known(who)) for role in who.roles]


def role_part(role: RoleRow, areas: Mapping[str, str], unknown: str = "") -> Part:
    """Return the part of a card about one role.

    Nothing is marked as good if the run is incomplete (``unknown``).
    """
    answer, tone = _verdict(role, whole=not unknown)
    lines = [_line(row, role.role) for row in role.answers]
    if unknown:
        answer, tone = (unknown, "calm") if tone == "good" else (f"{answer} {unknown}", tone)
        lines = [line._replace(tone="calm") if line.tone == "good" else line for line in lines]
    unclaimed = [areas.get(area, area) for area in role.unclaimed]
    return Part(role.role, ROLES[role.role].asks, answer, tone, lines, unclaimed)


def _worst(failed: Mapping[str, int]) -> str:
    return min(failed, key=list(VERDICTS).index)


def _failed(row: AnswerRow | CellRow | RoleRow, basis: str) -> Mapping[str, int]:
    return row.failed.get(basis, {})  # type: ignore[call-overload, no-any-return]


def failing_cases(row: AnswerRow | CellRow | RoleRow, basis: str) -> int:
    """Return the number of cases that fail on a basis; ignored recommendations are not failures."""
    return sum(count for kind, count in _failed(row, basis).items() if basis != "text" or kind != ADVICE)


def advice(row: CellRow | RoleRow) -> int:
    return _failed(row, "text").get(ADVICE, 0)


def table_word(role: RoleRow, basis: str, unknown: str = "") -> str:
    _, wrong, right = BASES[basis]
    if unknown and not failing_cases(role, basis):
        return UNKNOWN
    if basis != "text":
        return wrong if failing_cases(role, basis) else right
    if not failing_cases(role, "text"):
        return KEEPS_TO_TEXT if any(role.failed.values()) else NOTHING_SHOWN
    kind = _worst(role.failed["text"])
    accepted = accepted_questions(role)
    if kind == "wrong-accept" and accepted and accepted <= REPEATED:
        return REPEATED_KEYS
    if kind == "wrong-accept" and role.role == "reader" and not accepted & set(LAYOUT):
        return FORBIDDEN
    return (FAILURE_WORDS | ROLES[role.role].words).get(kind, "against the text")


def accepted_questions(role: RoleRow) -> frozenset[str]:
    """Return the questions about the forbidden files that the program accepts or does not report."""
    questions = (row.question for row in role.answers if failing_cases(row, "text"))
    return frozenset(question for question in questions if _answer_words(question, "reader")[0] == "accepted")


def _answer_words(question: str, role: str) -> tuple[str, str]:
    kind = next((known.answer for known in QUESTIONS if known.name == question), "see")
    return ANSWER_WORDS["miss" if role == "checker" and kind == "accept" else kind]


def _line(row: AnswerRow, role: str) -> Line:
    wrong, none = _answer_words(row.question, role)
    parts: list[str] = []
    for basis, reason in _REASONS.items():
        count = failing_cases(row, basis)
        if count and not parts:
            parts.append(f"{wrong + ': ' if wrong else ''}{count:,} of {row.asked:,}{reason}")
            parts += [row.note] if row.note else []
        elif count:
            parts.append(f"{count:,} more{reason}")
    first = next((b for b in _REASONS if failing_cases(row, b)), "")
    return Line(
        name=row.question,
        words=TITLES.get(row.question, row.question),
        answer=", ".join(parts) or f"{none} of {row.asked:,}",
        tone={"text": "bad", "": "good"}.get(first, "calm"),
        share=100 * failing_cases(row, first) / row.asked if first and row.asked else 0.0,
    )


def _named(questions: Sequence[str]) -> str:
    words = [TITLES[question] for question in questions]
    return listed([text[0].lower() + text[1:] for text in words], MAX_NAMED)


def _verdict(role: RoleRow, *, whole: bool) -> tuple[str, str]:
    """Return the line of a card and its tone; wrong content and broken layouts are the most serious.

    The line says nothing positive unless the results of the ``whole`` run are known.
    """
    bad = {row.question: row for row in role.answers if failing_cases(row, "text")}
    taken = [question for question in bad if question in accepted_questions(role)]
    content = next((bad[q] for q in ("values", "written") if q in bad), None)
    refused = next((bad[q] for q in ("refused", "declined") if q in bad), None)
    objects = "calls" if role.role == "writer" else "indexes" if role.role == "index" else "files"
    verb = {"checker": "misses", "lister": "lists"}.get(role.role, "accepts")
    rejects = (
        f"rejects {failing_cases(refused, 'text'):,} of {refused.asked:,} valid {objects}" if refused else ""
    )
    # Without cases about layouts, no violation counts as mild.
    looked = role.role in _OPENS and any(row.question in LAYOUT for row in role.answers)
    if content or LAYOUT.intersection(taken) or (taken and not looked):
        reasons = []
        if content:
            wrong = "writes wrong files" if role.role == "writer" else "returns wrong values"
            reasons.append(
                f"{wrong} for {failing_cases(content, 'text'):,} of {content.asked:,} valid {objects}"
            )
        if taken:
            grave = sorted(taken, key=lambda question: question not in LAYOUT)
            reasons.append(f"{verb} {_named(grave)}")
        reasons += [rejects] if rejects else []
        start = {"checker": "Not on its own", "writer": "Not without checks"}.get(
            role.role, "Only after a strict check"
        )
        return f"{start}: it {', '.join(reasons[:-1])}{' and ' if reasons[1:] else ''}{reasons[-1]}.", "bad"
    if taken:
        other = next((row for row in role.answers if row.question == "values"), None)
        silent = sum(failing_cases(other, basis) for basis in BASES) if other is not None else 0
        text = f"With care: it {verb} what the text forbids ({_named(taken)})"
        text += f" and {rejects}" if rejects else ""
        if not whole:
            return f"{text}.", "mild"
        text += ", but no failure with a broken layout"
        if not silent:
            return f"{text} and no wrong value is shown.", "mild"
        values = f"It returns other values for {plural(silent, 'valid file')}"
        return f"{text} is shown. {values} on points where the written format is silent.", "mild"
    if rejects:
        praise = "accepts nothing that is forbidden here, but it " if whole else ""
        return f"It {praise}{rejects}.", "bad"
    if failing_cases(role, "text"):
        return "It breaks rules of the written format; see below.", "bad"
    if any(role.failed.values()):
        missed = advice(role)
        parts = (
            [f"does not follow {plural(missed, 'recommendation')} of the written format"] if missed else []
        )
        for basis, words in _DIFFERS.items():
            if count := failing_cases(role, basis):
                parts.append(f"{words} in {plural(count, 'case')}")
        praise = "meets all requirements of the written format; it " if whole else ""
        return f"It {praise}{' and '.join(parts)}.", "calm"
    return "No fault of this kind is shown.", "good"


_UNKNOWN = frozenset("-.H")


@dataclass(frozen=True)
class Delta:
    """The differences between two reports.

    ``unknown`` contains the findings whose cases were not all run again.
    """

    new: tuple[str, ...]
    fixed: tuple[str, ...]
    still: tuple[str, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...] = ()


def report_delta(report: Report, previous: Report) -> Delta:
    now = {f.id for f in report.findings}
    before = {f.id: f for f in previous.findings}
    gone = sorted(before.keys() - now)
    answered = {
        one.selector: {row.case for row in report.cases.rows if row.verdicts[i] not in _UNKNOWN}
        for i, one in enumerate(report.implementations)
    }
    selectors = {one.label: one.selector for one in previous.implementations}
    fixed = []
    for name in gone:
        cases = set(before[name].cases)
        # Findings without named cases, such as those from fuzzing, cannot be shown to be fixed.
        if cases and cases <= answered.get(selectors.get(before[name].implementation, ""), set()):
            fixed.append(name)
    return Delta(
        # Keep the findings sorted by severity.
        tuple(f.id for f in report.findings if f.id not in before),
        tuple(fixed),
        tuple(f.id for f in report.findings if f.id in before),
        tuple(i for i in gone if i not in fixed),
        tuple(_notes(report, previous)),
    )


def _notes(report: Report, previous: Report) -> list[str]:
    out = []
    if report.corpus.sha256 != previous.corpus.sha256:
        out.append("the previous report is about a different corpus")
    if report.rule_book.sha256 != previous.rule_book.sha256:
        out.append("the previous report uses a different rule book")
    profiles = [{(w.selector, w.profile) for w in r.implementations} for r in (report, previous)]
    shared = {s for s, _ in profiles[0]} & {s for s, _ in profiles[1]}
    if any({p for s, p in profiles[0] if s == x} != {p for s, p in profiles[1] if s == x} for x in shared):
        out.append("the previous report uses a different profile")
    return out


def baseline_delta(report: Report) -> Delta | None:
    """Compare the findings with the baselines, which list only failures; return None without a baseline."""
    implementations = [one for one in report.implementations if one.baseline]
    if not implementations:
        return None
    labels = {one.label for one in implementations}
    mine = [f for f in report.findings if f.implementation in labels and fails(f.verdict)]
    entries = [(one.label, row) for one in implementations for row in one.expected_failures]

    def named(state: str) -> tuple[str, ...]:
        return tuple(f"{label}: {row.case}" for label, row in entries if row.state == state)

    return Delta(
        tuple(f.id for f in mine if not f.expected_failure),
        named("passes"),
        tuple(f.id for f in mine if f.expected_failure),
        named("no verdict"),
    )
