"""Comments for pull requests, at most 60 lines whatever was found: about runs, and about an audit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import FAILING, badness, fails, kind_of

from .audit.delta import baseline_delta, report_delta
from .audit.tally import fine_words, tally
from .causes.cause import cause_text, command, failing
from .differences.compare import Comparison, compare, distinct_labels
from .record.run import row_failures
from .record.summary import FAILURE_COUNTS, caveats, other_counts, verdict_counts
from .templates import render
from .text import code, listed
from .versions import version_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .audit.report import Implementation, Report
    from .causes import Cause
    from .record.run import Row, RunRecord

MAX_LINES = 60
MAX_LABELS = 4
MAX_FINDINGS = 5
MAX_LABEL = 40
"""Characters of a label."""


@dataclass(frozen=True)
class _Failure:
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
    """Return the comment: counts per run, causes, failing cases (new ones first), choices, disagreements.

    Args:
        records: any number of runs.
        causes: the likely causes of each; none to leave them out.

    Returns:
        GitHub-flavoured Markdown of at most 60 lines, each bounded in length, encodable as UTF-8.
    """
    if not records:
        return "### safetensors conformance\n\nNo run record was given: nothing is known.\n"
    labels = distinct_labels(records)
    counts = [verdict_counts(r) | other_counts(r) for r in records]
    columns = (*FAILURE_COUNTS, *other_counts(records[0]))
    comparison = compare(records)
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
        rows=_cause_rows(records, labels, causes),
        many=len(records) > 1,
        what=cause_text,
        command=command,
        failures=_failures(records, labels),
        counted=lambda failures: Counter(f.word for f in failures).items(),
        ran=sum(r.cases for r in records),
        due=sum(r.cases + r.not_run for r in records),
        choices=_choices(records, labels),
        comparison=comparison,
        alone=_alone(comparison),
        scope=_scope(comparison),
    )
    return text.rstrip("\n") + "\n"


def _cause_rows(
    records: Sequence[RunRecord], labels: Sequence[str], causes: Sequence[Sequence[Cause]]
) -> list[tuple[str, Row, Cause]]:
    rows = [
        (label, record.header, cause)
        for label, record, found in zip(labels, records, causes or [()] * len(records), strict=True)
        for cause in failing(found)
    ]
    return sorted(rows, key=lambda row: (badness(row[2].verdict), -len(row[2].cases)))


def _failures(records: Sequence[RunRecord], labels: Sequence[str]) -> list[_Failure]:
    """Return everything that fails: unexpected before expected, then worst verdict first."""
    found: list[_Failure] = []
    for record, label in zip(records, labels, strict=True):
        expected, rows = record.expected_cases, record.by_case
        for case, verdict in record.case_verdicts.items():
            if kind_of(verdict) in FAILING - {"choice-inconsistent"}:
                row = next(r for r in rows[case] if r["verdict"] == verdict)
                found.append(_failure(row, case in expected, label))
        found += [
            _Failure("choice-inconsistent", False, label, choice, (), detail)
            for choice, detail in record.inconsistent_choices().items()
        ]
    rank = {label: i for i, label in enumerate(labels)}
    return sorted(found, key=lambda f: (f.expected, badness(f.verdict), rank[f.label], f.case))


def _failure(row: Row, expected: bool, label: str) -> _Failure:
    failures = row_failures(row)
    detail = row.get("detail") or row.get("message", "")
    rules = tuple(dict.fromkeys(f["rule"] for f in failures if f["rule"]))
    return _Failure(row["verdict"], expected, label, row["case"], rules, detail)


def _choices(records: Sequence[RunRecord], labels: Sequence[str]) -> list[str]:
    taken: dict[str, dict[str, list[str]]] = {}
    for record, label in zip(records, labels, strict=True):
        for row in record.choices:
            answers = taken.setdefault(row["choice"], {})
            answers.setdefault(_answer(row["verdict"]), []).append(code(label, MAX_LABEL))
    return [f"{code(name, 60)}: {_choice_text(answers, len(records))}" for name, answers in taken.items()]


def _answer(verdict: str) -> str:
    kind, _, options = verdict.partition(":")
    if kind == "choice":
        return " or ".join(code(option, 40) for option in options.split("|")[:4])
    return {"pass": "as the profile asks", "choice-inconsistent": "**inconsistent**"}.get(kind, kind)


def _choice_text(answers: Mapping[str, Sequence[str]], runs: int) -> str:
    if runs == 1:
        return "; ".join(list(answers)[:MAX_LABELS])
    parts = [f"{answer} ({listed(list(names), MAX_LABELS)})" for answer, names in answers.items()]
    return "; ".join(parts[:MAX_LABELS])


def _scope(comparison: Comparison) -> list[str]:
    parts = []
    if comparison.left_out:
        parts.append(f"cases left out because not every run has them: {comparison.left_out:,}")
    if comparison.unanswered:
        parts.append(
            f"cases not compared because fewer than two runs gave an answer: {comparison.unanswered:,}"
        )
    return [*parts, *(code(note, 120) for note in comparison.notes)]


def _alone(comparison: Comparison) -> list[str]:
    lone = Counter((s.dissenter, s.kind) for s in comparison.splits if s.dissenter is not None)
    totals = Counter(s.dissenter for s in comparison.splits if s.dissenter is not None)
    return [
        f"{code(label, MAX_LABEL)} (content {lone[label, 'content']:,}, verdict {lone[label, 'verdict']:,})"
        for label, _ in totals.most_common()
    ]


def summary_markdown(report: Report, previous: Report | None = None) -> str:
    """Return the comment, ending in a line break.

    Args:
        report: the report.
        previous: an older report; without one the baselines tell what is new.
    """
    levels = Counter(f.severity for f in report.findings)
    causes = [
        (who, cause)
        for who in report.implementations
        for cause in who.causes
        if not cause.redacted and not cause.expected_failure and fails(cause.verdict)
    ]
    text = render(
        "audit.md",
        LINES=MAX_LINES,
        TOP=MAX_FINDINGS,
        report=report,
        whos=report.implementations,
        delta=baseline_delta(report) if previous is None else report_delta(report, previous),
        against="the baseline" if previous is None else "the previous report",
        tally=tally,
        fine=fine_words(report),
        wrong=_faults,
        not_asked=_not_asked,
        levels=" · ".join(f"{x} {levels[x]:,}" for x in report.scales.severity if levels[x]),
        # What the baseline expects is known; of the rest the worst come first already.
        found=sorted(
            (f for f in report.findings if f.severity != "informational"),
            key=lambda f: f.expected_failure,
        ),
        causes=sorted(causes, key=lambda pair: (badness(pair[1].verdict), -pair[1].case_count)),
    )
    return "\n".join(text.split("\n")[:MAX_LINES]).rstrip("\n") + "\n"


def _faults(who: Implementation) -> list[str]:
    counts = who.counts
    wrong = [f"{kind} {counts[kind]:,}" for kind in FAILURE_COUNTS if counts.get(kind)]
    if who.contradictions and "choice-inconsistent" not in counts:
        wrong.append(f"choice-inconsistent {who.contradictions:,}")
    return wrong + ([f"({who.expected_failing:,} expected)"] if who.expected_failing else [])


def _not_asked(who: Implementation) -> str:
    reasons = who.not_asked
    words = listed([f"{code(reason, 20)} {number:,}" for reason, number in reasons.items()], 5)
    total = sum(reasons.values())
    return f"{total:,} ({words})" if total else "0"
