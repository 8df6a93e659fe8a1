"""Rule coverage by implementation: the worst verdict per area, rule and case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.verdicts import fails, kind_of, worse, worst
from safetensors_corpus.steps import ONE_STEP_KINDS
from safetensors_reference import rule_book
from safetensors_reference.rules.pages import AREAS

from ..record.run import RunRecord
from .report import LETTERS, AreaCells, CaseRow, RuleCells


def matrix(records: Sequence[RunRecord], manifest: Manifest) -> list[AreaCells]:
    """Return one row per area, with one row per rule, and the worst verdict of every implementation.

    A failing case counts only for the rules to which its failures are attributed. ``worst`` is null if an
    implementation has no verdict, and ``known`` is the number of cases with a verdict per implementation.
    """
    carried: dict[str, set[str]] = {rule: set() for rule in rule_book().rules}
    for case in manifest.cases:
        for rule in case.rules:
            # A corpus from another version may name rules that this version does not know.
            carried.setdefault(rule, set()).add(case.id)
    by_record = [_RecordVerdicts.of(record) for record in records]

    def cells(rules: Sequence[str]) -> tuple[int, list[int], list[str | None]]:
        cases = set().union(*(carried[rule] for rule in rules))
        results = [verdicts.of_rules(rules, cases) for verdicts in by_record]
        charged = [bad for _, bad in results]
        known = [sum(map(len, (*fine.values(), bad))) for fine, bad in results]
        worst = [_overall_kind([*fine, *bad.values()]) if fine or bad else None for fine, bad in results]
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
class _RecordVerdicts:
    """A record's passing cases by kind of verdict, and its failing cases by the rule that they violate."""

    fine: Mapping[str, set[str]]
    charged: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, record: RunRecord) -> _RecordVerdicts:
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

    def of_rules(self, rules: Sequence[str], cases: set[str]) -> tuple[dict[str, set[str]], dict[str, str]]:
        """Return the passing cases by kind, and the verdicts of the cases that violate one of the rules."""
        bad: dict[str, str] = {}
        for rule in rules:
            for case, verdict in self.charged.get(rule, {}).items():
                bad[case] = worse(verdict, bad.get(case, "pass"))
        fine = {kind: (of & cases) - bad.keys() for kind, of in self.fine.items()}
        return {kind: of for kind, of in fine.items() if of}, bad


def _overall_kind(verdicts: Sequence[str]) -> str:
    """Return the worst failing verdict; one unsupported dtype does not make a rule look unsupported."""
    kind = kind_of(worst(verdicts))
    if fails(kind, strict=True):
        return kind
    kinds = {kind_of(verdict) for verdict in verdicts}
    return next(kind for kind in ("pass", "choice", "unsupported") if kind in kinds)


def case_rows(records: Sequence[RunRecord], manifest: Manifest) -> list[CaseRow]:
    columns = [_column(record, manifest) for record in records]
    return [
        CaseRow(case.id, case.rules[0], "".join(row))
        for case, row in zip(manifest.cases, zip(*columns, strict=True), strict=True)
    ]


def _column(record: RunRecord, manifest: Manifest) -> list[str]:
    verdicts = record.case_verdicts
    reasons = record.header["corpus"].get("left_out", {})
    unsure: set[str] = set()
    if record.not_run:  # a kind may have been skipped only in part if the implementation has its step
        steps = set(record.implementation.get("steps", ()))
        unsure = steps.intersection(ONE_STEP_KINDS) | ({"resource"} if steps & {"open", "read"} else set())

    def missing(case: Case) -> str:
        kind = case.area if case.kind == "read" else case.kind
        skipped = (case.heavy and "heavy" in reasons) or (kind in reasons and kind not in unsure)
        return "not asked" if skipped else "not run"

    return [
        LETTERS[kind_of(verdicts[case.id]) if case.id in verdicts else missing(case)]
        for case in manifest.cases
    ]
