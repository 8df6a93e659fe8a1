"""Changes of a report against an older one, or against what the baselines expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import fails

if TYPE_CHECKING:
    from .report import Finding, Report

_UNKNOWN = frozenset("-.H")
"""Letters of cases about which nothing is known."""


@dataclass(frozen=True)
class Delta:
    """Names of findings, or of cases with their implementation.

    Attributes:
        new: there now and not before.
        fixed: there before, and every case of it has a verdict now that does not show it.
        still: there before and now.
        unknown: there before, and not asked for again in full; neither fixed nor still there.
        notes: reasons to read the numbers with care.
    """

    new: tuple[str, ...]
    fixed: tuple[str, ...]
    still: tuple[str, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...] = ()


def report_delta(report: Report, previous: Report) -> Delta:
    """Compare the findings of two reports by id."""
    now = {f.id for f in report.findings}
    before = {f.id: f for f in previous.findings}
    gone = sorted(before.keys() - now)
    answered = {who.selector: _answered(report, i) for i, who in enumerate(report.implementations)}
    selectors = {who.label: who.selector for who in previous.implementations}
    fixed = [
        i for i in gone if _asked_again(before[i], answered.get(selectors.get(before[i].implementation, "")))
    ]
    return Delta(
        # Findings are in order of severity, and new ones are read from the top.
        tuple(f.id for f in report.findings if f.id not in before),
        tuple(fixed),
        tuple(f.id for f in report.findings if f.id in before),
        tuple(i for i in gone if i not in fixed),
        tuple(_notes(report, previous)),
    )


def _answered(report: Report, index: int) -> set[str] | None:
    rows = report.cases.rows
    return {r.case for r in rows if r.verdicts[index] not in _UNKNOWN} if rows else None


def _asked_again(finding: Finding, answered: set[str] | None) -> bool:
    # What fuzzing found alone, or what names no cases, nobody can tell to be gone.
    return bool(answered) and bool(finding.cases) and set(finding.cases) <= (answered or set())


def _notes(report: Report, previous: Report) -> list[str]:
    out = []
    if report.corpus.sha256 != previous.corpus.sha256:
        out.append("the previous report is about another corpus")
    if report.rule_book.sha256 != previous.rule_book.sha256:
        out.append("the previous report goes by another rule book")
    profiles = [{(w.selector, w.profile) for w in r.implementations} for r in (report, previous)]
    shared = {s for s, _ in profiles[0]} & {s for s, _ in profiles[1]}
    if any({p for s, p in profiles[0] if s == x} != {p for s, p in profiles[1] if s == x} for x in shared):
        out.append("the previous report goes by another profile")
    return out


def baseline_delta(report: Report) -> Delta | None:
    """Compare findings with the baselines of their runs, None when no run had one.

    New are findings with a result that is not expected; fixed and unknown are entries of baselines. What no
    baseline has to list, such as a missed recommendation, is left out.
    """
    whos = [who for who in report.implementations if who.baseline]
    if not whos:
        return None
    labels = {who.label for who in whos}
    mine = [f for f in report.findings if f.implementation in labels and fails(f.verdict)]
    entries = [(who.label, row) for who in whos for row in who.expected_failures]

    def named(state: str) -> tuple[str, ...]:
        return tuple(f"{label}: {row.case}" for label, row in entries if row.state == state)

    return Delta(
        tuple(f.id for f in mine if not f.expected_failure),
        named("passes"),
        tuple(f.id for f in mine if f.expected_failure),
        named("no verdict"),
    )
