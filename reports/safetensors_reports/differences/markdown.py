"""A differential run as a Markdown page: what to look at first, and what to write into a triage file.

Every text that comes from a reader or a file stands in a code span, where it can neither break the page nor
mention people, link issues or hide characters.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from ..text import code, listed, visible
from .causes import again, cause_of, example_of
from .report import DiffReport, Standing
from .signatures import SORTS, Disagreement, Signature, Sort
from .terminal import because, subjects

ROWS = 30
SKELETONS = 20
_NAMES = 6


def diff_markdown(report: DiffReport) -> str:
    """Return the page: GitHub-flavoured Markdown, each list bounded, encodable as UTF-8."""
    lines = [
        f"### Differential run · {len(report.who)} implementations · {report.source}",
        "",
        *_head(report),
        *_sort(report, "content"),
        *_sort(report, "verdict"),
        *_unsafe(report),
        *_pairs(report),
        *_alone(report),
        *_choices(report),
        *_causes(report),
        *_triage(report),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _head(report: DiffReport) -> list[str]:
    found, counts = report.differences, report.counts
    lines = ["| implementation | language | selector |", "|---|---|---|"]
    lines += [
        f"| {code(w.label, 60)} | {code(w.language, 30)} | {code(w.selector, 80)} |" for w in report.who
    ]
    totals = " · ".join(f"{sort} **{counts[sort]:,}**" for sort in SORTS)
    lines += ["", f"Inputs compared: {found.compared:,} of {report.given:,} · {totals}", ""]
    lines += [f"- {sort}: {text}" for sort, text in SORTS.items() if counts[sort]]
    remarks = [f"problem: {code(p, 300)}" for p in report.problems[:ROWS]]
    remarks += [code(note, 200) for note in report.notes[:ROWS]]
    if report.interrupted:
        remarks.insert(0, "**interrupted**: what follows is what was known then")
    return [*lines, "", *(f"- {text}" for text in remarks), *([""] if remarks else [])]


def _sort(report: DiffReport, sort: Sort) -> list[str]:
    clusters = [c for c in report.differences.clusters() if c.kind == sort]
    if not clusters:
        return []
    known = {d.input: d for d in report.differences.found}
    lines = [
        f"#### {sort.capitalize()} splits",
        "",
        "| inputs | who answered how | about | example |",
        "|---:|---|---|---|",
    ]
    for cluster in clusters[:ROWS]:
        members = [known[case] for case in cluster.cases]
        example = code(members[0].input, 80) + _why(members[0])
        about = code(subjects(members), 200)
        lines.append(f"| {len(members):,} | {_vector(cluster.vector)} | {about} | {example} |")
    return [*lines, *_rest(len(clusters), "outcome vectors"), ""]


def _why(d: Disagreement) -> str:
    return f" {code(because(d)[2:], 200)}" if d.between is not None else ""


def _vector(vector: Mapping[str, str]) -> str:
    by_token: dict[str, list[str]] = {}
    for label, token in vector.items():
        by_token.setdefault(token, []).append(code(label, 40))
    return "; ".join(f"{token} {listed(names, _NAMES)}" for token, names in sorted(by_token.items()))


def _rest(count: int, what: str) -> list[str]:
    return ["", f"… and {count - ROWS:,} more {what}"] if count > ROWS else []


def _unsafe(report: DiffReport) -> list[str]:
    rows = report.differences.unsafe()
    lines = ["#### Unsafe", ""] if rows else []
    for label, ends in list(rows.items())[:ROWS]:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in Counter(t for _, t in ends).items())
        names = listed([code(name, 80) for name, _ in ends], _NAMES)
        lines.append(f"- {code(label, 60)}: {kinds}: {names}")
    return [*lines, ""] if lines else []


def _pairs(report: DiffReport) -> list[str]:
    rows = [(p, n) for p, n in report.differences.pairs().items() if any(n.values())]
    lines = (
        ["#### Pairs", "", "| pair | content | verdict | choice |", "|---|---:|---:|---:|"] if rows else []
    )
    for (a, b), n in rows[:ROWS]:
        lines.append(
            f"| {code(a, 60)} / {code(b, 60)} | {n['content']:,} | {n['verdict']:,} | {n['choice']:,} |"
        )
    return [*lines, *_rest(len(rows), "pairs"), ""] if rows else []


def _alone(report: DiffReport) -> list[str]:
    parts = [
        f"{code(x, 60)} (content {n['content']:,}, verdict {n['verdict']:,}, choice {n['choice']:,})"
        for x, n in report.differences.dissenters().items()
    ]
    return [f"Alone against all others: {listed(parts, ROWS)}", ""] if parts else []


def _choices(report: DiffReport) -> list[str]:
    groups: dict[str, list[Disagreement]] = {}
    for d in report.differences.of("choice"):
        groups.setdefault(d.about.choice, []).append(d)
    if not groups:
        return []
    lines = ["#### Open choices", "", "Several answers are legitimate; none of these is a defect.", ""]
    for choice, members in sorted(groups.items(), key=lambda x: (-len(x[1]), x[0]))[:ROWS]:
        lines.append(f"- {code(choice, 80)} ×{len(members):,}: {_vector(members[0].vector)}")
    return [*lines, *_rest(len(groups), "choices"), ""]


def _causes(report: DiffReport) -> list[str]:
    rows = report.with_status("new", "expired")
    lines = ["#### Likely causes", "", "| inputs | sort | what | who answered how | example | again |"]
    lines.append("|---:|---|---|---|---|---|")
    for signature, _ in rows[:ROWS]:
        example = example_of(signature)
        lines.append(
            f"| {len(signature.found):,} | {signature.sort} | {code(cause_of(signature), 200)} "
            f"| {_vector(example.vector)} | {code(example.input, 80)}{_why(example)} "
            f"| {code(again(report, example), 300)} |"
        )
    return [*lines, *_rest(len(rows), "causes"), ""] if rows else []


def _triage(report: DiffReport) -> list[str]:
    new, known = report.with_status("new", "expired"), report.with_status("known")
    lines = ["#### Triage", "", f"Signatures: {len(new):,} new or overdue, {len(known):,} known.", ""]
    for signature, standing in known[:ROWS]:
        lines.append(f"- known ×{len(signature.found):,}: {code(signature.text, 300)} {_reason(standing)}")
    lines += [f"- matched nothing: {code(text, 300)}" for text in report.unmatched[:ROWS]]
    if new:
        lines += ["", "To keep the new ones quiet once they are understood:", "", "```toml"]
        lines += skeleton([s for s, _ in new[:SKELETONS]])
        lines += ["```", *(["", f"… and {len(new) - SKELETONS:,} more"] if len(new) > SKELETONS else [])]
    return lines


def _reason(standing: Standing) -> str:
    link = f" {standing.issue}" if standing.issue.startswith("http") else ""
    return f"{code(standing.reason, 200)}{link}, review by {standing.review_by}"


def skeleton(signatures: Sequence[Signature]) -> list[str]:
    """Return triage entries to be completed, TOML lines that cannot leave a fenced block."""
    lines = []
    for signature in signatures:
        text = json.dumps(visible(signature.text, 2000).replace("`", "?"), ensure_ascii=True)
        lines += [
            "[[known]]",
            f"signature = {text}  # {len(signature.found):,} inputs, {signature.sort}",
            'reason = ""',
            'issue = "unreported"  # or the URL of an issue, then without why',
            'why = ""',
            "review_by = ",
            "",
        ]
    return lines[:-1]
