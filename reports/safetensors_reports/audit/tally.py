"""Case counts of one implementation, shared by all forms of a report: page, comment, badge, statement."""

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
    """Cases of a full run (``due``), each in one other field; published ``fine`` ones may be withheld."""

    due: int
    fine: int
    unsupported: int
    warned: int
    failed: int
    lost: int
    not_run: int


def tally(who: Implementation) -> Tally:
    counted = {
        part: sum(number for kind, number in who.counts.items() if kind_of(kind) in kinds)
        for part, kinds in (("warned", WARNED), ("failed", FAILED))
    }
    unsupported, lost = who.counts.get(UNSUPPORTED, 0), who.counts.get(LOST, 0)
    # Published reports do not count passes, so subtract everything else.
    fine = who.cases - unsupported - lost - sum(counted.values())
    return Tally(who.due, fine, unsupported, counted["warned"], counted["failed"], lost, who.not_run)


def not_known(who: Implementation) -> str:
    left = tally(who).not_run
    if who.ended == "complete" and not left:
        return ""
    ended = "" if who.ended == "complete" else f" ({who.ended} run)"
    return f"Not fully known{ended}: {left:,} of {plural(who.due, 'case')} not run."


def fine_words(report: Report) -> str:
    return "no fault shown" if report.public else "as expected"


def tally_sentence(report: Report, who: Implementation) -> str:
    counts = tally(who)
    parts = [
        f"{counts.fine:,} {fine_words(report)}",
        *(
            f"{number:,} {words}"
            for number, words in (
                (counts.unsupported, "unsupported"),
                (counts.warned, "with a recommendation missed or refused late"),
                (counts.failed, "failed"),
                (counts.lost, "lost to the adapter"),
                (counts.not_run, "not run"),
            )
            if number
        ),
    ]
    return f"Of {plural(counts.due, 'case')}: {', '.join(parts)}."


HELD = (
    "No fault shown means that the case passed, took one of several legitimate options, or is withheld "
    "until a report is public. No number on this page reveals how many cases are withheld, if any."
)
