"""The support matrix: implementations by rule area, then rules and cases, failing rows first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import STRICT_FAILING

from ..audit.report import LETTERS, ORDER, AreaCells, CaseRow, Implementation, RuleCells
from .labels import FAILING_LETTERS, KIND_OF, blank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..audit.report import Report

_ORDER = [*LETTERS]


@dataclass(frozen=True)
class CaseGroup:
    """Failing cases of one rule, each with a kind of verdict per implementation."""

    rule: str
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Area:
    """One area of rules.

    Attributes:
        row: the area's row of the report's matrix.
        rules: its rules, the worst broken first.
        failed: cases that some implementation fails.
        others: number of cases that no implementation fails, as far as they were run.
    """

    row: AreaCells
    rules: list[RuleCells]
    failed: list[CaseGroup]
    others: int

    @property
    def failing(self) -> int:
        """Number of its rules that some implementation breaks."""
        return sum(any(kind in STRICT_FAILING for kind in rule.worst) for rule in self.rules)

    @property
    def failed_cases(self) -> int:
        """Number of its cases that some implementation fails."""
        return sum(len(group.rows) for group in self.failed)


def areas(report: Report) -> list[Area]:
    """Return the areas, the worst failed first; those without rules in a report are kept."""
    cases: dict[str, list[CaseRow]] = {}
    for case in report.cases.rows:
        cases.setdefault(case.rule, []).append(case)
    out = []
    for row in report.matrix:
        rules = sorted(row.rules, key=_badness)
        failed, others = [], 0
        for rule in rules:
            mine = cases.get(rule.rule, [])
            bad = [c for c in mine if not FAILING_LETTERS.isdisjoint(c.verdicts)]
            others += len(mine) - len(bad)
            if bad:
                shown = [(c.case, [KIND_OF[letter] for letter in c.verdicts]) for c in bad]
                failed.append(CaseGroup(rule.rule, shown))
        out.append(Area(row, rules, failed, others))
    return sorted(out, key=lambda area: _badness(area.row))


def standing(report: Report) -> list[tuple[Implementation, list[tuple[str, int, int]]]]:
    """Return per implementation the worst verdict, the cases known and all cases of every area in order.

    The worst implementations come first, by the word for them and then by what they fail.
    """
    out = []
    for i, who in enumerate(report.implementations):
        cells = [(row.worst[i] or blank(row.cases, who), row.known[i], row.cases) for row in report.matrix]
        out.append((who, cells))
    return sorted(out, key=lambda pair: (ORDER.index(pair[0].word), -wrong(pair[0]), pair[0].label))


def wrong(who: Implementation) -> int:
    """Return how many cases of an implementation fail, under the strictest reading."""
    return sum(who.counts.get(kind, 0) for kind in STRICT_FAILING)


def _badness(row: AreaCells | RuleCells) -> tuple[int, int]:
    """Sort key of a row of the matrix: its worst verdict, then how many have it."""
    ranks = _ranks(row.worst)
    return (ranks[0], -ranks.count(ranks[0])) if ranks else (len(_ORDER), 0)


def _ranks(worst: Sequence[str | None]) -> list[int]:
    return sorted(_ORDER.index(kind or "not run") for kind in worst)
