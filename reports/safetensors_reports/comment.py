"""Comments for pull requests about runs or an audit; each has at most 60 lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from safetensors_corpus.judging.verdicts import FAILING, badness, fails, kind_of

from .audit.report import Implementation, Report
from .causes.cause import Cause, cause_text, command, failing
from .differences.compare import compare
from .page.results import baseline_delta, fine_words, report_delta, tally
from .record.run import (
    FAILURE_COUNTS,
    RunRecord,
    caveats,
    distinct_labels,
    other_counts,
    row_failures,
    verdict_counts,
)
from .templates import render
from .text import code, listed, version_key

MAX_LINES = 60
MAX_LABELS = 4
MAX_FINDINGS = 5
MAX_LABEL = 40


class _Failure(NamedTuple):
    verdict: str
    expected: bool
    label: str
    case: str
    rules: tuple[str, ...]
    detail: str

    @property
    def word(self) -> str:
        return f"{self.verdict} (expected)" if self.expected else self.verdict


def markdown(records: Sequence[RunRecord], causes: Sequence[Sequence[Cause]] = ()) -> str:
    """Return a comment with the counts, causes, failing cases, choices and disagreements of some runs."""
    if not records:
        return "### safetensors conformance\n\nNo run record was given, so there is nothing to report.\n"
    labels = distinct_labels(records)
    counts = [verdict_counts(r) | other_counts(r) for r in records]
    columns = (*FAILURE_COUNTS, *other_counts(records[0]))
    comparison = compare(records)
    parts = {
        "cases left out because not all runs contain them": comparison.left_out,
        "cases not compared because fewer than two runs have an answer": comparison.unanswered,
    }
    rows = [
        (label, record.header, cause)
        for label, record, own in zip(labels, records, causes or [()] * len(records), strict=True)
        for cause in failing(own)
    ]
    lone = Counter((s.dissenter, s.kind) for s in comparison.splits if s.dissenter is not None)
    totals = Counter(s.dissenter for s in comparison.splits if s.dissenter is not None)
    text = render(
        "comment.md",
        LINES=MAX_LINES,
        corpora=sorted({r.header["corpus"]["version"] for r in records}, key=version_key),
        profiles=sorted({r.header["profile"] or "none" for r in records}),
        runs=list(zip(records, labels, counts, strict=True)),
        columns=[name for name in columns if any(name in row for row in counts)],
        remarks=[
            f"{code(label, MAX_LABEL)}: {remark}"
            for record, label in zip(records, labels, strict=True)
            for remark in caveats(record, markdown=True)
        ],
        rows=sorted(rows, key=lambda row: (badness(row[2].verdict), -len(row[2].cases))),
        many=len(records) > 1,
        what=cause_text,
        command=command,
        failures=_failures(records, labels),
        counted=lambda failures: Counter(f.word for f in failures).items(),
        ran=sum(r.cases for r in records),
        expected_cases=sum(r.cases + r.not_run for r in records),
        choices=_choices(records, labels),
        comparison=comparison,
        alone=[
            f"{code(x, MAX_LABEL)} (content {lone[x, 'content']:,}, verdict {lone[x, 'verdict']:,})"
            for x, _ in totals.most_common()
        ],
        scope=[
            *(f"{words}: {number:,}" for words, number in parts.items() if number),
            *(code(note, 120) for note in comparison.notes),
        ],
    )
    return text.rstrip("\n") + "\n"


def _failures(records: Sequence[RunRecord], labels: Sequence[str]) -> list[_Failure]:
    failures: list[_Failure] = []
    for record, label in zip(records, labels, strict=True):
        expected, rows = record.expected_cases, record.by_case
        for case, verdict in record.case_verdicts.items():
            if kind_of(verdict) in FAILING - {"choice-inconsistent"}:
                row = next(r for r in rows[case] if r["verdict"] == verdict)
                detail = row.get("detail") or row.get("message", "")
                rules = tuple(dict.fromkeys(f["rule"] for f in row_failures(row) if f["rule"]))
                failures.append(_Failure(verdict, case in expected, label, case, rules, detail))
        failures += [
            _Failure("choice-inconsistent", False, label, choice, (), text)
            for choice, text in record.inconsistent_choices().items()
        ]
    rank = {label: i for i, label in enumerate(labels)}
    return sorted(failures, key=lambda f: (f.expected, badness(f.verdict), rank[f.label], f.case))


def _choices(records: Sequence[RunRecord], labels: Sequence[str]) -> list[str]:
    taken: dict[str, dict[str, list[str]]] = {}
    for record, label in zip(records, labels, strict=True):
        for row in record.choices:
            kind, _, options = row["verdict"].partition(":")
            words = {"pass": "as the profile requires", "choice-inconsistent": "**inconsistent**"}.get(
                kind, kind
            )
            if kind == "choice":
                words = " or ".join(code(option, 40) for option in options.split("|")[:4])
            answers = taken.setdefault(row["choice"], {})
            answers.setdefault(words, []).append(code(label, MAX_LABEL))
    lines = []
    for name, answers in taken.items():
        several = len(records) > 1
        parts = [f"{x} ({listed(names, MAX_LABELS)})" if several else x for x, names in answers.items()]
        lines.append(f"{code(name, 60)}: {'; '.join(parts[:MAX_LABELS])}")
    return lines


def summary_markdown(report: Report, previous: Report | None = None) -> str:
    levels = Counter(f.severity for f in report.findings)
    causes = [
        (implementation, cause)
        for implementation in report.implementations
        for cause in implementation.causes
        if not cause.redacted and not cause.expected_failure and fails(cause.verdict)
    ]
    text = render(
        "audit.md",
        LINES=MAX_LINES,
        TOP=MAX_FINDINGS,
        report=report,
        implementations=report.implementations,
        delta=baseline_delta(report) if previous is None else report_delta(report, previous),
        against="the baseline" if previous is None else "the previous report",
        tally=tally,
        fine=fine_words(report),
        failure_counts=_failure_counts,
        skipped=_skipped,
        levels=" · ".join(f"{x} {levels[x]:,}" for x in report.scales.severity if levels[x]),
        # Findings are sorted worst first, and expected findings come last.
        found=sorted(
            (f for f in report.findings if f.severity != "informational"), key=lambda f: f.expected_failure
        ),
        causes=sorted(causes, key=lambda pair: (badness(pair[1].verdict), -pair[1].case_count)),
    )
    return "\n".join(text.split("\n")[:MAX_LINES]).rstrip("\n") + "\n"


def _failure_counts(implementation: Implementation) -> list[str]:
    counts = implementation.counts
    parts = [f"{kind} {counts[kind]:,}" for kind in FAILURE_COUNTS if counts.get(kind)]
    if implementation.contradictions and "choice-inconsistent" not in counts:
        parts.append(f"choice-inconsistent {implementation.contradictions:,}")
    expected = implementation.expected_failing
    return parts + ([f"({expected:,} expected)"] if expected else [])


def _skipped(implementation: Implementation) -> str:
    reasons = implementation.not_asked
    words = listed([f"{code(reason, 20)} {number:,}" for reason, number in reasons.items()], 5)
    total = sum(reasons.values())
    return f"{total:,} ({words})" if total else "0"
