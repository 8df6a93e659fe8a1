"""A comment for a pull request, at most 60 lines: what changed first, then the verdict, then what to mend.

A pure function of one report, and of an older one to compare with.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import badness, fails

from ..templates import render
from ..text import code, listed
from .delta import baseline_delta, report_delta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .build import Report

MAX_LINES = 60
MAX_FINDINGS = 5
WRONG = ("unsafe", "wrong-content", "wrong-accept", "wrong-reject", "deviation", "late-reject")
RARE = ("choice-inconsistent", "harness-error")


def summary_markdown(report: Report, previous: Report | None = None) -> str:
    """Return the comment, ending in a line break.

    Args:
        report: the report.
        previous: an older report; without one the baselines tell what is new.
    """
    levels = Counter(f["severity"] for f in report["findings"])
    causes = [
        (who, cause)
        for who in report["implementations"]
        for cause in who.get("causes", ())
        if not cause["redacted"] and not cause["expected_failure"] and fails(cause["verdict"])
    ]
    text = render(
        "audit.md",
        LINES=MAX_LINES,
        TOP=MAX_FINDINGS,
        report=report,
        whos=report["implementations"],
        delta=baseline_delta(report) if previous is None else report_delta(report, previous),
        against="the baseline" if previous is None else "the previous report",
        wrong=_wrong,
        not_asked=_not_asked,
        levels=" · ".join(f"{x} {levels[x]:,}" for x in report["scales"]["severity"] if levels[x]),
        # What the baseline expects is known; of the rest the worst come first already.
        found=sorted(
            (f for f in report["findings"] if f["severity"] != "informational"),
            key=lambda f: f["expected_failure"],
        ),
        causes=sorted(causes, key=lambda pair: (badness(pair[1]["verdict"]), -pair[1]["case_count"])),
    )
    return "\n".join(text.split("\n")[:MAX_LINES]).rstrip("\n") + "\n"


def _wrong(who: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an implementation, a few words each."""
    counts = who["counts"]
    wrong = [f"{kind} {counts[kind]:,}" for kind in (*WRONG, *RARE) if counts.get(kind)]
    if who["contradictions"] and "choice-inconsistent" not in counts:
        wrong.append(f"choice-inconsistent {who['contradictions']:,}")
    return wrong + ([f"({who['expected_failing']:,} expected)"] if who["expected_failing"] else [])


def _not_asked(who: Mapping[str, Any]) -> str:
    reasons = who["not_asked"]
    words = listed([f"{code(reason, 20)} {number:,}" for reason, number in reasons.items()], 5)
    total = sum(reasons.values())
    return f"{total:,} ({words})" if total else "0"
