"""A differential run as plain text: content splits before verdict splits, what is new at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..text import listed, visible
from .causes import again, cause_of, example_of
from .compare import Cluster
from .report import DiffReport, Standing
from .signatures import SORTS, Disagreement, Signature, Sort
from .splits_text import vector_text

_SUBJECTS = 5


def diff_text(report: DiffReport, limit: int = 10) -> list[str]:
    """Return the run for a terminal.

    Args:
        report: the run.
        limit: most entries shown of each list.

    Returns:
        Lines without line ends, safe to print as UTF-8.
    """
    found = report.differences
    labels = " · ".join(visible(w.label, 60) for w in report.who)
    ran, compared = _number(len(report.who), "implementation"), _number(found.compared, "input")
    lines = [f"{ran} on {report.source}, {compared} compared: {labels}"]
    if report.interrupted:
        lines.append(f"interrupted: {found.shared:,} of {report.given:,} inputs were given to all of them")
    lines += _scope(report)
    lines += [f"  note: {visible(note, 300)}" for note in report.notes]
    lines += _files(report, limit)
    counts = report.counts
    if any(counts.values()):
        lines.append(
            f"content splits {counts['content']:,}   verdict splits {counts['verdict']:,}   "
            f"unsafe alone {counts['unsafe']:,}   open choices {counts['choice']:,}"
        )
        lines += _clusters(report, "content", limit)
        lines += _clusters(report, "verdict", limit)
        lines += _unsafe(report, limit)
        lines += _choices(report, limit)
        lines += _alone(report, limit)
        lines += _pairs(report, limit)
    elif found.compared:
        lines.append("no disagreement: they agree on everything that two of them tell")
    else:
        lines.append("nothing compared: no input has two answers to hold against each other")
    return [*lines, *_triage(report, limit), *_problems(report, limit)]


def _scope(report: DiffReport) -> list[str]:
    found = report.differences
    lines = []
    if found.shared > found.compared:
        lines.append(
            f"  not compared because fewer than two gave an answer: {found.shared - found.compared:,}"
        )
    if found.left_out and not report.interrupted:
        lines.append(f"  left out because not all were asked: {found.left_out:,}")
    return lines


def _files(report: DiffReport, limit: int) -> list[str]:
    """Return what became of each file that was named by path: one line, more where they disagree."""
    found = {d.input: d for d in report.differences.found}
    rank = {name: i for i, name in enumerate(found)}
    lines = []
    for name in sorted(report.listed, key=lambda x: rank.get(x, len(rank)))[: limit * 2]:
        answers = report.answers.get(name, {})
        if name in found:
            lines.append(f"{visible(name, 120)}: {headline(found[name])}")
            width = max((len(label) for label in answers), default=0)
            lines += [f"  {visible(x, 60):<{min(width, 60)}}  {in_words(a)}" for x, a in answers.items()]
        else:
            words = sorted({in_words(a).partition(":")[0] for a in answers.values()})
            lines.append(f"{visible(name, 120)}: no disagreement ({' / '.join(words) or 'no answer'})")
    if len(report.listed) > limit * 2:
        lines.append(f"… {len(report.listed) - limit * 2:,} more files; --json lists all")
    return lines


def headline(d: Disagreement) -> str:
    """Say in one line what kind of disagreement it is: ``content split, OFF_HOLE: ...``."""
    words = {
        "content": "CONTENT SPLIT",
        "verdict": "VERDICT SPLIT",
        "unsafe": "UNSAFE",
        "choice": "open choice",
    }
    text = f"{words[d.sort]}, {d.about.subject}"
    if d.about.choice:
        text += f", choice {d.about.choice}"
    return text + because(d)


def because(d: Disagreement) -> str:
    """Return the first difference with the two that it lies between; empty for a verdict split."""
    if d.between is None:
        return ""
    return f": {d.difference} ({' / '.join(visible(x, 60) for x in d.between)})"


def in_words(answer: Mapping[str, Any]) -> str:
    """Say in a few words what a canonical dump holds: ``accept, 2 tensors, 1 metadata key``."""
    if answer["outcome"] != "accept":
        message = visible(str(answer.get("message") or ""), 120)
        return str(answer["outcome"]) + (f": {message}" if message else "")
    parts = ["accept"]
    if "count" in answer:
        parts.append(_number(answer["count"], "tensor"))
    if answer.get("metadata"):
        parts.append(_number(len(answer["metadata"]), "metadata key"))
    return ", ".join(parts)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def subjects(found: Iterable[Disagreement]) -> str:
    """Return what the inputs have in common, most frequent first: ``OFF_HOLE (3), DTY-07 (2)``."""
    counts = Counter(d.about.subject for d in found).most_common()
    return listed([f"{visible(name, 80)} ({n:,})" for name, n in counts], _SUBJECTS)


def _clusters(report: DiffReport, kind: str, limit: int) -> list[str]:
    clusters: list[Cluster] = [c for c in report.differences.clusters() if c.kind == kind]
    sort: Sort = "content" if kind == "content" else "verdict"
    known = {d.input: d for d in report.differences.found}
    lines = ["", f"{kind} splits: {SORTS[sort]}"] if clusters else []
    for cluster in clusters[:limit]:
        members = [known[case] for case in cluster.cases]
        lines.append(f"{len(members):>6,}  {vector_text(cluster.vector)}")
        lines.append(f"        {subjects(members)}")
        lines.append(f"        e.g. {visible(members[0].input, 120)}{because(members[0])}")
    if len(clusters) > limit:
        rest = sum(len(c.splits) for c in clusters[limit:])
        lines.append(f"     …  {len(clusters) - limit:,} more outcome vectors, {rest:,} inputs")
    return lines


def _unsafe(report: DiffReport, limit: int) -> list[str]:
    lines = []
    for label, ends in list(report.differences.unsafe().items())[:limit]:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in Counter(t for _, t in ends).items())
        first = listed([visible(name, 80) for name, _ in ends], 2)
        lines.append(f"  {visible(label, 60)}: {kinds}; {first}")
    return ["", "unsafe: crashed, hung or ran out of memory, splits included", *lines] if lines else []


def _choices(report: DiffReport, limit: int) -> list[str]:
    groups: dict[str, list[Disagreement]] = {}
    for d in report.differences.of("choice"):
        groups.setdefault(d.about.choice, []).append(d)
    rows = sorted(groups.items(), key=lambda x: (-len(x[1]), x[0]))
    lines = ["", "open choices: several answers are legitimate, no defect"] if rows else []
    for choice, members in rows[:limit]:
        lines.append(f"{len(members):>6,}  {visible(choice, 80)}: e.g. {visible(members[0].input, 80)}")
        lines.append(f"        {vector_text(members[0].vector)}")
    return lines + ([f"     …  {len(rows) - limit:,} more choices"] if len(rows) > limit else [])


def _alone(report: DiffReport, limit: int) -> list[str]:
    rows = [(visible(x, 60), n) for x, n in report.differences.dissenters().items()]
    return _table("alone against all others", rows, limit)


def _pairs(report: DiffReport, limit: int) -> list[str]:
    rows = [
        (" / ".join(visible(x, 60) for x in pair), n)
        for pair, n in report.differences.pairs().items()
        if any(n.values())
    ]
    return _table("pairs", rows, limit)


def _table(title: str, rows: Sequence[tuple[str, Counter[Sort]]], limit: int) -> list[str]:
    if not rows:
        return []
    columns: tuple[Sort, ...] = ("content", "verdict", "choice")
    width = max(len(title) - 2, *(len(name) for name, _ in rows[:limit]))
    lines = ["", f"{title:<{width + 2}}" + "".join(f"  {c:>8}" for c in columns)]
    lines += [f"  {name:<{width}}" + "".join(f"  {n[c]:>8,}" for c in columns) for name, n in rows[:limit]]
    return lines + ([f"  … {len(rows) - limit:,} more"] if len(rows) > limit else [])


def _triage(report: DiffReport, limit: int) -> list[str]:
    known = report.with_status("known")
    lines = []
    if known:
        inputs = sum(len(s.found) for s, _ in known)
        said = f"{_number(len(known), 'signature')}, {_number(inputs, 'input')}"
        lines.append(f"known: {said}, kept quiet by triage")
    if report.unmatched:
        lines.append("triage entries that matched nothing; remove them:")
        lines += [f"  {visible(text, 200)}" for text in report.unmatched[:limit]]
        lines += [f"  … {len(report.unmatched) - limit:,} more"] if len(report.unmatched) > limit else []
    lines += _signatures(report, "overdue for review", report.with_status("expired"), limit)
    lines += _signatures(report, "new signatures", report.with_status("new"), limit)
    return ["", *lines] if lines else []


def _signatures(
    report: DiffReport, title: str, rows: Sequence[tuple[Signature, Standing]], limit: int
) -> list[str]:
    """Return signatures as causes of disagreement: who answers how to what, an example and its command."""
    lines = [f"LIKELY CAUSES, {title}: {len(rows):,}, the worst first"] if rows else []
    for signature, standing in rows[:limit]:
        text = f"{len(signature.found):>6,}  {signature.sort}  {visible(signature.text, 1000)}"
        lines.append(text + (f"  (review was due {standing.review_by})" if standing.review_by else ""))
        example = example_of(signature)
        lines.append(f"        {cause_of(signature)}; e.g. {visible(example.input, 120)}{because(example)}")
        lines.append(f"        {again(report, example)}")
    return lines + ([f"     …  {len(rows) - limit:,} more; --json lists all"] if len(rows) > limit else [])


def _problems(report: DiffReport, limit: int) -> list[str]:
    lines = [f"problem: {visible(text, 400)}" for text in report.problems[:limit]]
    rest = len(report.problems) - limit
    return lines + ([f"… {rest:,} more problems"] if rest > 0 else [])
