"""A trend as text for a terminal and as a Markdown page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from safetensors_corpus.judging.verdicts import kind_of

from ..templates import render, render_lines
from ..text import code, listed, visible
from .model import TURNS, Change, Passage, Trend, Turn, bugs_of, rule_title

WORDS: dict[Turn, str] = {
    "fixed": "FIXED",
    "broken": "BROKEN",
    "otherwise": "fails otherwise",
    "choice": "chooses otherwise",
    "gained": "supported now",
    "lost": "not supported any more",
    "unknown": "not known",
}
MAX_ROWS = 40
"""Rules of each list of a page."""
MAX_CASES = 8
"""Cases, and known bugs, of each rule on a page."""


def trend_text(trend: Trend, limit: int = 5) -> list[str]:
    """Return a trend as lines for a terminal: versions, then what was fixed and what broke, rule by rule.

    Args:
        trend: the trend.
        limit: most cases shown per rule, and twice as many rules per list.
    """

    def known(changes: Sequence[Change], passage: Passage) -> list[str]:
        return _bugs(changes, passage, visible, " ({})", " [recorded for other versions]")

    return render_lines("trend.txt", **_values(trend), known=known, limit=limit)


def trend_markdown(trend: Trend) -> str:
    """Return a trend as a page: GitHub-flavoured Markdown, each list bounded, encodable as UTF-8."""

    def known(changes: Sequence[Change], passage: Passage) -> list[str]:
        return _bugs(changes, passage, code, " {}", " (recorded for other versions)")

    page = render("trend.md", **_values(trend), known=known, ROWS=MAX_ROWS, CASES=MAX_CASES)
    return page.rstrip("\n") + "\n"


def _values(trend: Trend) -> dict[str, Any]:
    return {"trend": trend, "TURNS": TURNS, "WORDS": WORDS, "rule_title": rule_title, "moves": _moves}


def _moves(changes: Sequence[Change]) -> str:
    """Return how verdicts moved, most frequent first: ``wrong-accept -> pass 12, unsafe -> pass 1``."""
    counts = Counter((_short(c.before), _short(c.after)) for c in changes).most_common()
    return listed([f"{a} -> {b} {n:,}" for (a, b), n in counts], 4)


def _short(verdict: str) -> str:
    return visible(verdict, 60) if kind_of(verdict) == "choice" else kind_of(verdict)


def _bugs(
    changes: Sequence[Change],
    passage: Passage,
    show: Callable[[str, int], str],
    versions: str,
    elsewhere: str,
) -> list[str]:
    """Return the known bugs that explain changes; it is said when the recorded versions do not fit."""
    return [
        f"{bug.id} {show(bug.reference, 80)}"
        + (versions.format(show(bug.versions, 30)) if bug.versions else "")
        + (elsewhere if bug.turns_between(passage.before, passage.after) is False else "")
        for bug in bugs_of(changes)
    ]
