"""Cards with a part for each role of a program: a question, an answer, and a line per kind of input.

Red marks violations of the written format. Deviations from the official library or from our hardening are not
shown in red.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from safetensors_corpus.judging.verdicts import VERDICTS

from ..audit.disclosure import OWN
from ..audit.report import UNKNOWN, AnswerRow, CauseRow, CellRow, Implementation, Report, RoleRow
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

MAX_NAMED = 3
MAX_CAUSES = 6
DISPUTE = "docs/disclosure.md#to-reach-us-to-disagree"
"""Page that explains how to dispute a result, as a path in the project."""
_ORDER = list(VERDICTS)
ADVICE = "not-strict"
_OPENS = frozenset({"reader", "lister", "device"})
"""Roles in which a program opens files to use their content."""
_REASONS = {
    "text": "",
    "official": " against the official library only",
    "ours": " against our hardening only",
}
"""Suffix of a number by basis."""
_DIFFERS = {"official": "differs from the official library", "ours": "falls short of our hardening"}


@dataclass(frozen=True)
class Line:
    """Results for one kind of input; ``tone`` is ``bad`` only for violations of the written format."""

    name: str
    words: str
    answer: str
    tone: str
    share: float


@dataclass(frozen=True)
class Part:
    """One role of a program; ``tone`` may also be ``mild`` for harmless violations of the written format."""

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
    """Summary of a program; ``more`` is the number of causes beyond ``MAX_CAUSES``."""

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


def card(report: Report, one: Implementation) -> Card:
    areas = {row.area: row.title for row in report.matrix}
    return Card(
        label=one.label,
        title=one.title or one.name,
        about=" · ".join(text for text in (one.label, one.language) if text and text != "unknown"),
        parts=[role_part(role, areas, not_known(one)) for role in one.roles],
        causes=one.causes[:MAX_CAUSES],
        more=max(len(one.causes) - MAX_CAUSES, 0),
        tracker=one.issues,
        own=one.name == OWN,
        claim=one.claim,
        scope=one.scope,
        unknown=not_known(one),
    )


def role_part(role: RoleRow, areas: Mapping[str, str], unknown: str = "") -> Part:
    """Return the part of one role; nothing is marked as good if the run is incomplete (``unknown``)."""
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
    """Return the number of cases that fail on a basis; ignored recommendations are not failures."""
    found: Mapping[str, int] = row.failed.get(basis, {})  # type: ignore[call-overload]
    return sum(count for kind, count in found.items() if basis != "text" or kind != ADVICE)


def advice(row: CellRow | RoleRow) -> int:
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
    """Return the questions about forbidden files that the program accepts or fails to report."""
    questions = (row.question for row in role.answers if failing_cases(row, "text"))
    return frozenset(question for question in questions if answer_words(question, "reader")[0] == "accepted")


def _line(row: AnswerRow, role: str) -> Line:
    wrong, none = answer_words(row.question, role)
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
        words=QUESTIONS.get(row.question, row.question),
        answer=", ".join(parts) or f"{none} of {row.asked:,}",
        tone={"text": "bad", "": "good"}.get(first, "calm"),
        share=100 * failing_cases(row, first) / row.asked if first and row.asked else 0.0,
    )


def _named(questions: Sequence[str]) -> str:
    words = [QUESTIONS[question] for question in questions]
    return listed([text[0].lower() + text[1:] for text in words], MAX_NAMED)


def _verdict(role: RoleRow) -> tuple[str, str]:
    """Return the line of a card and its tone; wrong content and broken layouts are the most serious."""
    bad = {row.question: row for row in role.answers if failing_cases(row, "text")}
    taken = [question for question in bad if question in accepted_questions(role)]
    content = next((bad[q] for q in ("values", "written") if q in bad), None)
    refused = next((bad[q] for q in ("refused", "declined") if q in bad), None)
    objects = "calls" if role.role == "writer" else "indexes" if role.role == "index" else "files"
    verb = {"checker": "misses", "lister": "lists"}.get(role.role, "accepts")
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
        start = {"checker": "Not on its own", "writer": "Not without checks"}.get(
            role.role, "Only after a strict check"
        )
        return f"{start}: it {' and '.join(reasons)}.", "bad"
    if taken:
        other = next((row for row in role.answers if row.question == "values"), None)
        silent = sum(failing_cases(other, basis) for basis in BASES) if other is not None else 0
        text = f"It {verb} what the text forbids ({_named(taken)}), but no failure with a broken layout"
        if not silent:
            return f"{text} and no wrong value is shown.", "mild"
        values = f"It returns other values for {plural(silent, 'valid file')}"
        return f"{text} is shown. {values} on points where the written format is silent.", "mild"
    if refused:
        share = f"{failing_cases(refused, 'text'):,} of {refused.asked:,} valid {objects}"
        return f"It accepts nothing that is forbidden here, but it rejects {share}.", "bad"
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
        return f"It meets all requirements of the written format; it {' and '.join(parts)}.", "calm"
    return "No fault of this kind is shown.", "good"
