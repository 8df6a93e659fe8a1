"""Case counts of an implementation, and changes since an older report, for pages, comments and badges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from safetensors_corpus.judging.verdicts import FAILING, fails, kind_of

from ..text import plural
from .report import Implementation, Report

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
