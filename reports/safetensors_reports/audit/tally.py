"""The numbers of one implementation as every form of a report tells them: page, comment, badge, statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from safetensors_corpus.judging.verdicts import FAILING, kind_of

from ..text import plural

if TYPE_CHECKING:
    from .report import Implementation, Report

FINE = frozenset({"pass", "choice"})
"""Kinds of verdict without a fault: as expected, or one of several legitimate options."""
WARNED = frozenset({"late-reject", "not-strict"})
UNSUPPORTED = "unsupported"
LOST = "harness-error"
FAILED = FAILING - {LOST}


class Tally(NamedTuple):
    """Cases that are due, each counted once; the parts add up to the whole of them.

    Attributes:
        due: all cases of a full run.
        fine: those without a fault: as expected or a legitimate option. In published reports of other
            people's software those that are held back are among them, so that there it says no more than that
            no fault is shown.
        unsupported: those with a feature that the implementation does not have: no fault and no success.
        warned: those that miss a recommendation, or were refused late.
        failed: those that fail.
        lost: those on which the adapter failed, so that nothing is known.
        not_run: those without a result.
    """

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
    # Published reports do not count what passed, so the rest is what no fault is shown of.
    fine = who.cases - unsupported - lost - sum(counted.values())
    return Tally(who.due, fine, unsupported, counted["warned"], counted["failed"], lost, who.not_run)


def not_known(who: Implementation) -> str:
    """Say that a run has no result of all that is due, empty for one that has."""
    left = tally(who).not_run
    if who.ended == "complete" and not left:
        return ""
    ended = "" if who.ended == "complete" else f" ({who.ended} run)"
    return f"Not fully known{ended}: {left:,} of {plural(who.due, 'case')} not run."


def fine_words(report: Report) -> str:
    return "no fault shown" if report.public else "as expected"


def tally_sentence(report: Report, who: Implementation) -> str:
    """Return the numbers of an implementation in one sentence, those that are zero left out."""
    told = tally(who)
    parts = [
        f"{told.fine:,} {fine_words(report)}",
        *(
            f"{number:,} {words}"
            for number, words in (
                (told.unsupported, "unsupported"),
                (told.warned, "with a recommendation missed or refused late"),
                (told.failed, "failed"),
                (told.lost, "lost to the adapter"),
                (told.not_run, "not run"),
            )
            if number
        ),
    ]
    return f"Of {plural(told.due, 'case')} due: {', '.join(parts)}."


HELD = (
    "No fault shown means that this page tells of none: the case passed, or took one of several legitimate "
    "options, or what it showed is held back until it is public. How many are held back cannot be told from "
    "any number here, nor whether there are any."
)
"""What the number of cases without a fault holds in published reports of other people's software."""
