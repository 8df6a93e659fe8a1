"""Support matrix: implementations by area of rules, then by rule and case, with failing rows first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from safetensors_corpus.judging.verdicts import STRICT_FAILING

from ..audit.report import LETTERS, AreaCells, CaseRow, Report, RuleCells
from .labels import FAILING_LETTERS, KIND_OF

_ORDER = [*LETTERS]


@dataclass(frozen=True)
class CaseGroup:
    """Failing cases of one rule, with a kind of verdict per implementation."""

    rule: str
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Area:
    """One area of rules; ``failed`` contains the cases that at least one implementation fails."""

    row: AreaCells
    rules: list[RuleCells]
    failed: list[CaseGroup]
    others: int

    @property
    def failing(self) -> int:
        return sum(any(kind in STRICT_FAILING for kind in rule.worst) for rule in self.rules)

    @property
    def failed_cases(self) -> int:
        return sum(len(group.rows) for group in self.failed)


def areas(report: Report) -> list[Area]:
    cases: dict[str, list[CaseRow]] = {}
    for case in report.cases.rows:
        cases.setdefault(case.rule, []).append(case)
    out = []
    for whole in report.matrix:
        row = _claimed(whole, report)
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


def _claims(area: AreaCells, report: Report) -> list[bool]:
    return [all(area.area not in role.unclaimed for role in who.roles) for who in report.implementations]


def _claimed(row: AreaCells, report: Report) -> AreaCells:
    claims = _claims(row, report)
    if all(claims):
        return row

    def kept(worst: Sequence[str | None]) -> list[str | None]:
        return [kind if claimed else None for kind, claimed in zip(worst, claims, strict=True)]

    rules = [replace(rule, worst=kept(rule.worst)) for rule in row.rules]
    return replace(row, worst=kept(row.worst), rules=rules)


@dataclass(frozen=True)
class BrokenRule:
    """A rule with the programs that break it, contrary to the written format or where it is silent."""

    rule: RuleCells
    against: list[str]
    silent: list[str]


def broken_rules(report: Report) -> list[tuple[AreaCells, list[BrokenRule]]]:
    out = []
    for area in report.matrix:
        claims = _claims(area, report)
        rows = []
        for rule in area.rules:
            named: dict[bool, list[str]] = {True: [], False: []}
            for who, kind, claimed in zip(report.implementations, rule.worst, claims, strict=True):
                if claimed and kind in STRICT_FAILING - {"unsafe", "harness-error"}:
                    named[kind in ("wrong-content", "wrong-accept", "wrong-reject")].append(who.label)
            if any(named.values()):
                rows.append(BrokenRule(rule, named[True], named[False]))
        if rows:
            out.append((area, rows))
    return out


def _badness(row: AreaCells | RuleCells) -> tuple[int, int]:
    ranks = sorted(_ORDER.index(kind or "not run") for kind in row.worst)
    return (ranks[0], -ranks.count(ranks[0])) if ranks else (len(_ORDER), 0)
