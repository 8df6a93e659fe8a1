"""A pull-request comment about one or several runs, at most 60 lines whatever the runs found.

Every text that comes from a reader or a file stands in a code span: there it can neither break the table nor
mention people, link issues or hide characters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import FAILING, badness, kind_of

from ..causes.lines import cause_table
from ..differences.compare import Cluster, Comparison, compare, distinct_labels
from ..record.run import row_failures
from ..text import code, listed
from .terminal import FAILURE_COUNTS, caveats, other_counts, verdict_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..causes import Cause
    from ..record.run import Row, RunRecord

LINES = 60
ROWS = 8
CAVEATS = 4
CAUSES = 12
FEWEST = 12
"""Lines kept for failing cases before any cause is told."""
CHOICES = 6
CLUSTERS = 5
LABELS = 4
_LABEL = 40


@dataclass(frozen=True)
class _Failure:
    verdict: str
    expected: bool
    label: str
    case: str
    rules: tuple[str, ...]
    detail: str


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
    before = [_title(records), "", *_counts_table(records, labels), *_caveat_lines(records, labels)]
    after = [*_choice_lines(records, labels), *_comparison_lines(records)]
    told = _cause_lines(records, labels, causes, LINES - len(before) - len(after) - FEWEST)
    failures = _failure_lines(records, labels, LINES - len(before) - len(told) - len(after))
    return "\n".join([*before, *told, *failures, *after]).rstrip("\n") + "\n"


def _title(records: Sequence[RunRecord]) -> str:
    corpora = sorted({r.header["corpus"]["version"] for r in records})
    profiles = sorted({r.header["profile"] or "none" for r in records})
    corpus, profile = (listed([code(x, 30) for x in names], 3) for names in (corpora, profiles))
    return f"### safetensors conformance · corpus {corpus} · profile {profile}"


def _counts_table(records: Sequence[RunRecord], labels: Sequence[str]) -> list[str]:
    rows = [verdict_counts(r) | other_counts(r) for r in records]
    columns = [
        name for name in (*FAILURE_COUNTS, *other_counts(records[0])) if any(name in row for row in rows)
    ]
    lines = [_row("implementation", *columns), "|---|" + "---:|" * len(columns)]
    for record, label, row in list(zip(records, labels, rows, strict=True))[:ROWS]:
        ending = " **truncated run**" if record.truncated else " **partial run**" if record.partial else ""
        lines.append(_row(code(label, _LABEL) + ending, *(f"{row.get(name, 0):,}" for name in columns)))
    if len(records) > ROWS:
        lines += ["", f"… and {len(records) - ROWS:,} more runs"]
    return [*lines, ""]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _caveat_lines(records: Sequence[RunRecord], labels: Sequence[str]) -> list[str]:
    lines = [
        f"- {code(label, _LABEL)}: {text}"
        for record, label in zip(records, labels, strict=True)
        for text in caveats(record, markdown=True)
    ]
    return _limited(lines, CAVEATS, "remarks about the runs")


def _limited(lines: list[str], limit: int, what: str) -> list[str]:
    """Return at most ``limit`` list items, a line counting the others and a blank line."""
    more = [f"- … and {len(lines) - limit:,} more {what}"] if len(lines) > limit else []
    return [*lines[:limit], *more, ""] if lines else []


def _cause_lines(
    records: Sequence[RunRecord], labels: Sequence[str], causes: Sequence[Sequence[Cause]], room: int
) -> list[str]:
    """Return the table of causes with its head, what does not fit counted; empty without room for one."""
    limit = min(CAUSES, room - 7)
    if not causes or limit < 1:
        return []
    return cause_table(
        [(x, r.header, found) for x, r, found in zip(labels, records, causes, strict=True)], limit
    )


def _failures(records: Sequence[RunRecord], labels: Sequence[str]) -> list[_Failure]:
    """Return everything that fails: unexpected before expected, then worst verdict first."""
    found: list[_Failure] = []
    for record, label in zip(records, labels, strict=True):
        expected, rows = record.expected_cases(), record.by_case()
        for case, verdict in record.case_verdicts().items():
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


def _failure_lines(records: Sequence[RunRecord], labels: Sequence[str], room: int) -> list[str]:
    failures = _failures(records, labels)
    if not failures:
        ran, total = (sum(n) for n in zip(*((r.cases, r.cases + r.not_run) for r in records), strict=True))
        return [f"No failing case; {ran:,} of {total:,} cases were run.", ""]
    expected = sum(f.expected for f in failures)
    lines = [
        f"**Failing: {len(failures) - expected:,} unexpected, {expected:,} expected**",
        "",
        _row("verdict", "case", "implementation", "rules", "detail"),
        "|---|---|---|---|---|",
    ]
    limit = room - len(lines) - 3
    for f in failures[:limit]:
        verdict = f"{f.verdict} (expected)" if f.expected else f"**{f.verdict}**"
        rules = listed([code(rule, 20) for rule in f.rules], 3)
        lines.append(_row(verdict, code(f.case, 80), code(f.label, _LABEL), rules, code(f.detail, 120)))
    return [*lines, "", *_rest_line(failures[limit:])]


def _rest_line(failures: Sequence[_Failure]) -> list[str]:
    if not failures:
        return []
    kinds = Counter(f"{f.verdict} (expected)" if f.expected else f.verdict for f in failures)
    counts = ", ".join(f"{kind} {n:,}" for kind, n in kinds.items())
    return [f"… and {len(failures):,} more: {counts}", ""]


def _choice_lines(records: Sequence[RunRecord], labels: Sequence[str]) -> list[str]:
    taken: dict[str, dict[str, list[str]]] = {}
    for record, label in zip(records, labels, strict=True):
        for row in record.choices:
            answers = taken.setdefault(row["choice"], {})
            answers.setdefault(_answer(row["verdict"]), []).append(code(label, _LABEL))
    lines = [f"- {code(name, 60)}: {_choice_text(answers, len(records))}" for name, answers in taken.items()]
    return ["**Choices taken**", "", *_limited(lines, CHOICES, "choices")] if lines else []


def _answer(verdict: str) -> str:
    kind, _, options = verdict.partition(":")
    if kind == "choice":
        return " or ".join(code(option, 40) for option in options.split("|")[:4])
    return {"pass": "as the profile asks", "choice-inconsistent": "**inconsistent**"}.get(kind, kind)


def _choice_text(answers: Mapping[str, Sequence[str]], runs: int) -> str:
    if runs == 1:
        return "; ".join(list(answers)[:LABELS])
    parts = [f"{answer} ({listed(list(names), LABELS)})" for answer, names in answers.items()]
    return "; ".join(parts[:LABELS])


def _comparison_lines(records: Sequence[RunRecord]) -> list[str]:
    if len(records) < 2:
        return []
    comparison = compare(records)
    content, verdict = len(comparison.content_splits), len(comparison.verdict_splits)
    splits = f"content splits {content:,} · verdict splits {verdict:,}"
    head = f"**Cases compared: {comparison.compared:,} · {splits}**"
    clusters = sorted(comparison.clusters, key=lambda c: c.kind)  # content comes first; the sort is stable
    lines = _limited([_cluster_line(cluster) for cluster in clusters], CLUSTERS, "ways to disagree")
    return [head, "", *lines, *_lone_line(comparison), *_scope_line(comparison)]


def _scope_line(comparison: Comparison) -> list[str]:
    parts = []
    if comparison.left_out:
        parts.append(f"cases left out because not every run has them: {comparison.left_out:,}")
    if comparison.unanswered:
        parts.append(
            f"cases not compared because fewer than two runs gave an answer: {comparison.unanswered:,}"
        )
    parts += [code(note, 120) for note in comparison.notes]
    return [f"Mind: {'; '.join(parts)}.", ""] if parts else []


def _cluster_line(cluster: Cluster) -> str:
    by_token: dict[str, list[str]] = {}
    for label, token in cluster.vector.items():
        by_token.setdefault(token, []).append(code(label, _LABEL))
    vector = " · ".join(f"{token} {listed(by_token[token], LABELS)}" for token in sorted(by_token)[:6])
    first = cluster.splits[0]
    why = f" ({code(first.difference, 120)})" if first.difference else ""
    return f"- {cluster.kind} ×{len(cluster.splits):,}: {vector}; e.g. {code(first.case, 80)}{why}"


def _lone_line(comparison: Comparison) -> list[str]:
    splits = (*comparison.content_splits, *comparison.verdict_splits)
    counts = Counter(split.dissenter for split in splits if split.dissenter is not None)
    parts = []
    for label, _ in counts.most_common():
        content = sum(s.dissenter == label for s in comparison.content_splits)
        verdict = sum(s.dissenter == label for s in comparison.verdict_splits)
        parts.append(f"{code(label, _LABEL)} (content {content:,}, verdict {verdict:,})")
    return [f"Alone against all others: {listed(parts, LABELS)}", ""] if parts else []
