"""Cards: what somebody who chooses a program wants to know first, each answer counted from verdicts.

A card has a part for each role of the program: a question, an answer in one line, and a line per sort of
input. Red is what the written format forbids; what rests on the official library or on our hardening is calm.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import VERDICTS

from ..audit.disclosure import OWN
from ..audit.report import UNKNOWN
from ..audit.roles import LAYOUT, REPEATED
from ..audit.tally import not_known
from ..text import listed, plural
from .labels import (
    BASES,
    KEEPS_TO_TEXT,
    NOTHING_SHOWN,
    QUESTIONS,
    REPEATED_KEYS,
    ROLE_WORDS,
    ROLES,
    answer_words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..audit.report import AnswerRow, CauseRow, CellRow, Implementation, Report, RoleRow

MAX_NAMED = 3
"""Most sorts of input that the one line names."""
MAX_CAUSES = 6
"""Most causes on a card."""
DISPUTE = "docs/disclosure.md#to-reach-us-to-disagree"
"""Where to disagree: a path below the project, until it has an address that pages can name."""
_ORDER = list(VERDICTS)
ADVICE = "not-strict"
_OPENS = frozenset({"reader", "lister", "device"})
"""Roles in which a file is opened for what it holds."""
_REASONS = {
    "text": "",
    "official": " against the official library alone",
    "ours": " against our hardening alone",
}
"""Basis -> what follows a number."""


@dataclass(frozen=True)
class Line:
    """One sort of input and what happened.

    Attributes:
        name: of the question.
        words: what was looked at.
        answer: what happened, with numbers.
        tone: ``bad`` by the written text, ``calm`` by something else, ``good`` for nothing shown.
        share: of the cases that fail, by the worst basis, from 0 to 100.
    """

    name: str
    words: str
    answer: str
    tone: str
    share: float


@dataclass(frozen=True)
class Part:
    """One role of a program.

    Attributes:
        role: word in reports.
        head: of the table of such programs.
        asks: the question.
        answer: in one line.
        tone: as of lines, or ``mild`` for what the text does not allow and does no harm by itself.
        word: the worst that the row of the table shows, by the written text.
        lines: per sort of input.
        unclaimed: areas of rules that the program does not claim to judge.
    """

    role: str
    head: str
    asks: str
    answer: str
    tone: str
    word: str
    lines: list[Line]
    unclaimed: list[str]


@dataclass(frozen=True)
class Card:
    """What is told first of a program.

    Attributes:
        label: its name in the report.
        title: what its makers call it, or the label.
        about: language and version in a few words.
        parts: its roles.
        causes: the worst first, at most ``MAX_CAUSES``.
        more: number of causes left out.
        tracker: address of its issues, or empty.
        own: this project's own reader.
        claim: what its documentation says of what it looks at, and where; or empty.
        scope: what was called and how; empty for a program without a descriptor.
        unknown: that the run has no result of all that is due, or empty.
    """

    label: str
    title: str
    about: str
    parts: list[Part]
    causes: list[CauseRow] = field(default_factory=list)
    more: int = 0
    tracker: str = ""
    own: bool = False
    claim: str = ""
    scope: str = ""
    unknown: str = ""


def card(report: Report, who: Implementation) -> Card:
    """Return the card of an implementation of a report; one without parts for reports of older versions."""
    areas = {row.area: row.title for row in report.matrix}
    return Card(
        label=who.label,
        title=who.title or who.name,
        about=" · ".join(text for text in (who.label, who.language) if text and text != "unknown"),
        parts=[role_part(role, areas, not_known(who)) for role in who.roles],
        causes=who.causes[:MAX_CAUSES],
        more=max(len(who.causes) - MAX_CAUSES, 0),
        tracker=who.issues,
        own=who.name == OWN,
        claim=who.claim,
        scope=who.scope,
        unknown=not_known(who),
    )


def role_part(role: RoleRow, areas: Mapping[str, str], unknown: str = "") -> Part:
    """Return what a card tells of one role.

    Args:
        role: what it showed.
        areas: titles of areas by their letters.
        unknown: that not all that is due has a result, or empty. Then nothing is called good.
    """
    head, _, asks = ROLES[role.role]
    answer, tone = _verdict(role)
    if unknown and tone == "good":
        answer, tone = unknown, "calm"
    lines = [_line(row, role.role) for row in role.answers]
    if unknown:
        lines = [replace(line, tone="calm") if line.tone == "good" else line for line in lines]
    return Part(
        role=role.role,
        head=head,
        asks=asks,
        answer=answer,
        tone=tone,
        word=table_word(role, "text", unknown),
        lines=lines,
        unclaimed=[areas.get(area, area) for area in role.unclaimed],
    )


def worst(failed: Mapping[str, int]) -> str:
    return min(failed, key=_ORDER.index, default="")


def failing_cases(row: AnswerRow | CellRow | RoleRow, basis: str) -> int:
    """Return how many cases fail by a basis. Advice of the text that is not taken breaks nothing."""
    found: Mapping[str, int] = row.failed.get(basis, {})  # type: ignore[call-overload]
    return sum(count for kind, count in found.items() if basis != "text" or kind != ADVICE)


def advice(row: CellRow | RoleRow) -> int:
    """Return in how many cases a recommendation of the text is missed, and nothing worse done by the text."""
    return row.failed.get("text", {}).get(ADVICE, 0)


def table_word(role: RoleRow, basis: str, unknown: str = "") -> str:
    _, wrong, right = BASES[basis]
    if unknown and not failing_cases(role, basis):
        return UNKNOWN
    if basis != "text":
        return wrong if failing_cases(role, basis) else right
    if not failing_cases(role, "text"):
        return KEEPS_TO_TEXT if any(role.failed.values()) else NOTHING_SHOWN
    kind = worst(role.failed["text"])
    if kind == "wrong-accept" and accepted_questions(role) and accepted_questions(role) <= REPEATED:
        return REPEATED_KEYS
    return ROLE_WORDS[role.role].get(kind, "against the text")


def accepted_questions(role: RoleRow) -> frozenset[str]:
    """Return the questions about files of which some are accepted against the text; a checker misses them."""
    found = (row.question for row in role.answers if failing_cases(row, "text"))
    return frozenset(question for question in found if answer_words(question, "reader")[0] == "accepted")


def _line(row: AnswerRow, role: str) -> Line:
    wrong, none = answer_words(row.question, role)
    told: list[str] = []
    for basis, reason in _REASONS.items():
        count = failing_cases(row, basis)
        if count and not told:
            told.append(f"{wrong + ': ' if wrong else ''}{count:,} of {row.asked:,}{reason}")
            told += [row.note] if row.note else []
        elif count:
            told.append(f"{count:,} more{reason}")
    first = next((b for b in _REASONS if failing_cases(row, b)), "")
    return Line(
        name=row.question,
        words=QUESTIONS.get(row.question, row.question),
        answer=", ".join(told) or f"{none}, of {row.asked:,}",
        tone={"text": "bad", "": "good"}.get(first, "calm"),
        share=100 * failing_cases(row, first) / row.asked if first and row.asked else 0.0,
    )


def _named(questions: Sequence[str]) -> str:
    words = [QUESTIONS[question] for question in questions]
    return listed([text[0].lower() + text[1:] for text in words], MAX_NAMED)


def _verdict(role: RoleRow) -> tuple[str, str]:
    """Return the one line of a card and its tone.

    Other bytes and a layout in which readers see different bytes are told from what the text does not allow
    and which does no harm by itself.
    """
    bad = {row.question: row for row in role.answers if failing_cases(row, "text")}
    taken = [question for question in bad if question in accepted_questions(role)]
    content = next((bad[q] for q in ("values", "written") if q in bad), None)
    refused = next((bad[q] for q in ("refused", "declined") if q in bad), None)
    what = "calls" if role.role == "writer" else "indexes" if role.role == "index" else "files"
    verb = {"checker": "misses", "lister": "lists", "writer": "takes"}.get(role.role, "accepts")
    # Where nobody asked about layouts, no mild word may rest on them.
    looked = role.role in _OPENS and any(row.question in LAYOUT for row in role.answers)
    if content or LAYOUT.intersection(taken) or (taken and not looked):
        told = []
        if content:
            wrong = "writes wrong files" if role.role == "writer" else "tells wrong values"
            told.append(f"{wrong} in {failing_cases(content, 'text'):,} of {content.asked:,} valid {what}")
        if taken:
            grave = sorted(taken, key=lambda question: question not in LAYOUT)
            told.append(f"{verb} {_named(grave)}")
        start = {"checker": "Not alone", "writer": "Not unchecked"}.get(
            role.role, "Not without a check before"
        )
        return f"{start}: it {' and '.join(told)}.", "bad"
    if taken:
        other = next((row for row in role.answers if row.question == "values"), None)
        silent = sum(failing_cases(other, basis) for basis in BASES) if other is not None else 0
        shown = "no broken layout is shown" if silent else "no broken layout and no wrong value is shown"
        values = (
            f" It tells other values in {plural(silent, 'valid file')}, against no word of the text."
            * bool(silent)
        )
        return f"It {verb} what the text does not allow ({_named(taken)}); {shown}.{values}", "mild"
    if refused:
        count = failing_cases(refused, "text")
        return (
            f"Nothing forbidden gets past it here; it refuses {count:,} of {refused.asked:,} valid {what}.",
            "bad",
        )
    if failing_cases(role, "text"):
        return "It breaks rules of the written format; see below.", "bad"
    if any(role.failed.values()):
        differs = [
            f"differs in {plural(failing_cases(role, basis), 'case')} {words}"
            for basis, words in (("official", "of the official library"), ("ours", "of our hardening"))
            if failing_cases(role, basis)
        ]
        missed = [f"misses {plural(advice(role), 'recommendation')} of the text"] if advice(role) else []
        return (
            f"It breaks nothing that the text requires; it {' and '.join([*missed, *differs])}.",
            "calm",
        )
    return "No fault of this kind shown.", "good"
