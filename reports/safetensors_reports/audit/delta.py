"""Compare a report with an older report or with the baselines."""

from __future__ import annotations

from dataclasses import dataclass

from safetensors_corpus.judging.verdicts import fails

from .report import Report

_UNKNOWN = frozenset("-.H")


@dataclass(frozen=True)
class Delta:
    """The differences between two reports; findings in ``unknown`` were not completely run again."""

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
    """Compare the findings with the baselines, which list failures only; return None if there are none."""
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
