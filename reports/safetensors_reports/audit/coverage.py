"""Coverage of the rules by every implementation: the worst verdict per area, rule and case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import fails, kind_of, worse, worst
from safetensors_corpus.steps import ONE_STEP_KINDS
from safetensors_reference import rule_book
from safetensors_reference.rules.pages import AREAS

from .report import LETTERS, AreaCells, CaseRow, RuleCells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from safetensors_corpus import Case, Manifest

    from ..record.run import RunRecord


def matrix(records: Sequence[RunRecord], manifest: Manifest) -> list[AreaCells]:
    """Return a row per area with one per rule, each with the worst verdict of every implementation.

    A failing case counts for the rules that it is charged to alone. Where nothing fails, ``worst`` is
    ``pass`` as soon as one case passes. It is null where an implementation has no verdict on any case of the
    rule; ``cases`` counts the cases of the corpus, ``known`` per implementation those with a verdict.
    """
    carried: dict[str, set[str]] = {rule: set() for rule in rule_book().rules}
    for case in manifest.cases:
        for rule in case.rules:
            # A corpus of another version may name rules that this rule book does not have.
            carried.setdefault(rule, set()).add(case.id)
    standings = [_Standing.of(record) for record in records]

    def cells(rules: Sequence[str]) -> tuple[int, list[int], list[str | None]]:
        cases = set().union(*(carried[rule] for rule in rules))
        found = [standing.under(rules, cases) for standing in standings]
        charged = [bad for _, bad in found]
        known = [sum(map(len, (*fine.values(), bad))) for fine, bad in found]
        worst = [_standing([*fine, *bad.values()]) if fine or bad else None for fine, bad in found]
        return len(cases.union(*charged)), known, worst

    out = []
    for area, title in AREAS.items():
        rules = [
            RuleCells(rule.id, rule.level, rule.title, *cells([rule.id]))
            for rule in rule_book().rules.values()
            if rule.id.startswith(f"{area}-")
        ]
        out.append(AreaCells(area, title, *cells([rule.rule for rule in rules]), rules))
    return out


@dataclass(frozen=True)
class _Standing:
    """Cases of one record that fail nothing, by kind of verdict, and for each rule those charged to it."""

    fine: Mapping[str, set[str]]
    charged: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, record: RunRecord) -> _Standing:
        fine: dict[str, set[str]] = {}
        for case, verdict in record.case_verdicts.items():
            if not fails(verdict, strict=True):
                fine.setdefault(kind_of(verdict), set()).add(case)
        charged: dict[str, dict[str, str]] = {}
        for row, failures in record.failing:
            for failed in failures:
                cases = charged.setdefault(failed["rule"], {})
                cases[row["case"]] = worse(failed["verdict"], cases.get(row["case"], "pass"))
        return cls(fine, charged)

    def under(self, rules: Sequence[str], cases: set[str]) -> tuple[dict[str, set[str]], dict[str, str]]:
        """Return what is known of some rules that are carried by some cases.

        Those are kind -> cases that fail nothing, and case -> verdict of those charged to the rules: a
        failure says nothing of others that its case has.
        """
        bad: dict[str, str] = {}
        for rule in rules:
            for case, verdict in self.charged.get(rule, {}).items():
                bad[case] = worse(verdict, bad.get(case, "pass"))
        fine = {kind: (of & cases) - bad.keys() for kind, of in self.fine.items()}
        return {kind: of for kind, of in fine.items() if of}, bad


def _standing(verdicts: Sequence[str]) -> str:
    """Return the worst failing verdict; without one the best there is.

    One file with a dtype that a reader lacks does not make a whole rule unsupported.
    """
    kind = kind_of(worst(verdicts))
    if fails(kind, strict=True):
        return kind
    kinds = {kind_of(verdict) for verdict in verdicts}
    return next(kind for kind in ("pass", "choice", "unsupported") if kind in kinds)


def case_rows(records: Sequence[RunRecord], manifest: Manifest) -> list[CaseRow]:
    """Return every case with one letter per implementation, in the order of the corpus."""
    columns = [_column(record, manifest) for record in records]
    return [
        CaseRow(case.id, case.rules[0], "".join(row))
        for case, row in zip(manifest.cases, zip(*columns, strict=True), strict=True)
    ]


def _column(record: RunRecord, manifest: Manifest) -> list[str]:
    verdicts = record.case_verdicts
    reasons = record.header["corpus"].get("left_out", {})
    # A kind is left out in part where only some of its cases have a step that the implementation has.
    unsure = _kinds(record) if record.not_run else set()
    return [
        LETTERS[kind_of(verdicts[case.id]) if case.id in verdicts else _missing(case, reasons, unsure)]
        for case in manifest.cases
    ]


def _missing(case: Case, reasons: dict[str, int], unsure: set[str]) -> str:
    if case.heavy and "heavy" in reasons:
        return "not asked"
    kind = case.area if case.kind == "read" else case.kind
    return "not asked" if kind in reasons and kind not in unsure else "not run"


def _kinds(record: RunRecord) -> set[str]:
    steps = set(record.implementation.get("steps", ()))
    kinds = steps.intersection(ONE_STEP_KINDS)
    return kinds | {"resource"} if steps & {"open", "read"} else kinds
