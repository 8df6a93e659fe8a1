"""Case counts of one implementation, shared by pages, comments, badges and statements."""

from __future__ import annotations

from typing import NamedTuple

from safetensors_corpus.judging.verdicts import FAILING, kind_of

from ..text import plural
from .report import Implementation, Report

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
