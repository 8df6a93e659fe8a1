"""Cards: what somebody who chooses a program wants to know first, each answer counted from verdicts.

A card has a part for each role of the program: a question, an answer in one line, and a line per sort of
input. Red is what the written format forbids; what rests on the official library or on our hardening is calm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import VERDICTS

from ..audit.disclosure import OWN
from ..text import listed
from .labels import (
    BASES,
    KEEPS_TO_TEXT,
    NOTHING_SHOWN,
    QUESTIONS,
    ROLE_WORDS,
    ROLES,
    answer_words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..audit.report import AnswerRow, CauseRow, CellRow, Implementation, Report, RoleRow

MAX_NAMED = 3
"""Most sorts of input that the one line names."""
MAX_CAUSES = 6
"""Most causes on a card."""
DISPUTE = "docs/disclosure.md#to-reach-us-to-disagree"
"""Where to disagree: a path below the project, until it has an address that pages can name."""
_ORDER = list(VERDICTS)
_REASONS = {"text": "", "official": " by the official library alone", "ours": " by our hardening alone"}
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
        tone: as of lines.
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
        scope: what its public entry point says of the same files, where something else was called; or empty.
    """

    label: str
    title: str
    about: str
    parts: list[Part]
    causes: list[CauseRow] = field(default_factory=list)
    more: int = 0
    tracker: str = ""
    own: bool = False
    scope: str = ""


def card(report: Report, who: Implementation) -> Card:
    """Return the card of an implementation of a report; one without parts for reports of older versions."""
    areas = {row.area: row.title for row in report.matrix}
    return Card(
        label=who.label,
        title=who.title or who.name,
        about=" · ".join(text for text in (who.label, who.language) if text and text != "unknown"),
        parts=[part(role, areas) for role in who.roles],
        causes=who.causes[:MAX_CAUSES],
        more=max(len(who.causes) - MAX_CAUSES, 0),
        tracker=who.issues,
        own=who.name == OWN,
        scope=who.scope,
    )


def part(role: RoleRow, areas: Mapping[str, str]) -> Part:
    """Return what a card tells of one role; ``areas`` are the titles of areas by their letters."""
    head, _, asks = ROLES[role.role]
    answer, tone = _verdict(role)
    return Part(
        role=role.role,
        head=head,
        asks=asks,
        answer=answer,
        tone=tone,
        word=word(role, "text"),
        lines=[_line(row, role.role) for row in role.answers],
        unclaimed=[areas.get(area, area) for area in role.unclaimed],
    )


def worst(failed: Mapping[str, int]) -> str:
    """Return the worst of some verdicts, empty for none."""
    return min(failed, key=_ORDER.index, default="")


def number(row: AnswerRow | CellRow | RoleRow, basis: str) -> int:
    """Return how many cases fail by a basis."""
    return sum(row.failed.get(basis, {}).values())  # type: ignore[call-overload]


def word(role: RoleRow, basis: str) -> str:
    """Return the word of a row: the worst that it shows by a basis."""
    _, wrong, right = BASES[basis]
    kind = worst(role.failed.get(basis, {}))  # type: ignore[call-overload]
    if basis != "text":
        return wrong if kind else right
    if kind:
        return ROLE_WORDS[role.role].get(kind, "against the text")
    return KEEPS_TO_TEXT if any(role.failed.values()) else NOTHING_SHOWN


def _line(row: AnswerRow, role: str) -> Line:
    wrong, none = answer_words(row.question, role)
    told: list[str] = []
    for basis, reason in _REASONS.items():
        count = number(row, basis)
        if count and not told:
            told.append(f"{wrong + ': ' if wrong else ''}{count:,} of {row.asked:,}{reason}")
            told += [row.note] if row.note else []
        elif count:
            told.append(f"{count:,} more{reason}")
    first = next((b for b in _REASONS if number(row, b)), "")
    return Line(
        name=row.question,
        words=QUESTIONS.get(row.question, row.question),
        answer=", ".join(told) or f"{none}, of {row.asked:,}",
        tone={"text": "bad", "": "good"}.get(first, "calm"),
        share=100 * number(row, first) / row.asked if first else 0.0,
    )


def _verdict(role: RoleRow) -> tuple[str, str]:
    """Return the one line of a card and its tone."""
    bad = {row.question: row for row in role.answers if number(row, "text")}
    accepted = [QUESTIONS[q].lower() for q in bad if answer_words(q, "reader")[0] == "accepted"]
    content = next((bad[q] for q in ("values", "written") if q in bad), None)
    refused = next((bad[q] for q in ("refused", "declined") if q in bad), None)
    what = "calls" if role.role == "writer" else "indexes" if role.role == "index" else "files"
    if accepted or content:
        told = []
        if accepted:
            verb = {"checker": "misses", "lister": "lists", "writer": "takes"}.get(role.role, "accepts")
            told.append(f"{verb} {listed(accepted, MAX_NAMED)}")
        if content:
            verb = "writes wrong files" if role.role == "writer" else "tells wrong values"
            told.append(f"{verb} in {number(content, 'text'):,} of {content.asked:,} valid {what}")
        start = {"checker": "Not alone", "writer": "Not unchecked"}.get(
            role.role, "Not without a check before"
        )
        return f"{start}: it {' and '.join(told)}.", "bad"
    if refused:
        count = number(refused, "text")
        return (
            f"Nothing forbidden gets past it here; it refuses {count:,} of {refused.asked:,} valid {what}.",
            "bad",
        )
    if number(role, "text"):
        return "It breaks rules of the written format; see below.", "bad"
    if any(role.failed.values()):
        told = [
            f"{number(role, basis):,} {'case' if number(role, basis) == 1 else 'cases'} {words}"
            for basis, words in (("official", "of the official library"), ("ours", "of our hardening"))
            if number(role, basis)
        ]
        return f"It breaks nothing that the text requires; it differs in {' and '.join(told)}.", "calm"
    return "No fault of this kind shown.", "good"
