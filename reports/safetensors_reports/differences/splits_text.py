"""The disagreements between implementations as plain text; content and verdict splits are never summed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..text import visible
from .compare import Cluster, Comparison, Kind, PairSplits, Split, compare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Cluster", "Comparison", "PairSplits", "Split", "compare", "diff_lines", "vector_text"]


def diff_lines(comparison: Comparison, limit: int = 10) -> list[str]:
    """Return the comparison as plain text for a terminal, content splits first.

    Args:
        comparison: what ``compare`` returned.
        limit: most entries shown of each list.

    Returns:
        Lines without line ends, safe to print as UTF-8.
    """
    labels = [visible(label, 60) for label in comparison.labels]
    if len(labels) < 2:
        return ["nothing to compare: a comparison needs the records of at least two runs"]
    lines = [f"{len(labels)} runs, cases compared {comparison.compared:,}: {' · '.join(labels)}"]
    lines += _scope_lines(comparison)
    content, verdict = len(comparison.content_splits), len(comparison.verdict_splits)
    if not comparison.compared:
        return [*lines, "nothing compared: no case has two answers to hold against each other"]
    if not content and not verdict:
        return [*lines, "no differences: in every case compared, all agree on whatever two of them tell"]
    lines.append(f"content splits {content:,}   verdict splits {verdict:,}")
    lines += _cluster_lines(comparison, "content", "content splits: accepted, but read differently", limit)
    lines += _cluster_lines(comparison, "verdict", "verdict splits: accepted by some, refused by some", limit)
    lines += _dissenter_lines(comparison, limit)
    return lines + _pair_lines(comparison, limit)


def _scope_lines(comparison: Comparison) -> list[str]:
    lines = []
    if comparison.left_out:
        lines.append(f"  cases left out because not every run has them: {comparison.left_out:,}")
    if comparison.unanswered:
        lines.append(
            f"  cases not compared because fewer than two runs gave an answer: {comparison.unanswered:,}"
        )
    return lines + [f"  note: {visible(note, 300)}" for note in comparison.notes]


def _cluster_lines(comparison: Comparison, kind: Kind, title: str, limit: int) -> list[str]:
    clusters = [c for c in comparison.clusters if c.kind == kind]
    lines = ["", title] if clusters else []
    for cluster in clusters[:limit]:
        first = cluster.splits[0]
        lines.append(f"{len(cluster.splits):>6,}  {vector_text(cluster.vector)}")
        lines.append(f"        e.g. {visible(first.case, 120)}{_because(first)}")
    if len(clusters) > limit:
        rest = sum(len(c.splits) for c in clusters[limit:])
        lines.append(f"     …  {len(clusters) - limit:,} more outcome vectors, {rest:,} cases")
    return lines


def vector_text(vector: Mapping[str, str]) -> str:
    """Return a vector in one escaped line, labels gathered by token: ``accept:A x, y · reject z``."""
    by_token: dict[str, list[str]] = {}
    for label, token in vector.items():
        by_token.setdefault(token, []).append(visible(label, 60))
    return " · ".join(f"{token} {', '.join(names)}" for token, names in sorted(by_token.items()))


def _because(split: Split) -> str:
    if split.between is None:
        return ""
    return f": {split.difference} ({' / '.join(visible(x, 60) for x in split.between)})"


def _dissenter_lines(comparison: Comparison, limit: int) -> list[str]:
    counts: dict[str, Counter[Kind]] = {}
    for split in (*comparison.content_splits, *comparison.verdict_splits):
        if split.dissenter is not None:
            counts.setdefault(split.dissenter, Counter())[split.kind] += 1
    rows = sorted(counts.items(), key=lambda x: (-x[1]["content"], -x[1]["verdict"], x[0]))
    return _table("alone against all others", [(x, n["content"], n["verdict"]) for x, n in rows], limit)


def _pair_lines(comparison: Comparison, limit: int) -> list[str]:
    rows = sorted(comparison.pairs.items(), key=lambda x: (-x[1].content, -x[1].verdict))
    named = [(" / ".join(visible(x, 60) for x in pair), *n) for pair, n in rows if any(n)]
    return _table("pairs", named, limit)


def _table(title: str, rows: Sequence[tuple[str, int, int]], limit: int) -> list[str]:
    if not rows:
        return []
    shown = [(visible(name, 130), content, verdict) for name, content, verdict in rows[:limit]]
    width = max(len(title) - 2, *(len(name) for name, _, _ in shown))
    lines = ["", f"{title:<{width + 2}}  {'content':>8}  {'verdict':>8}"]
    lines += [f"  {name:<{width}}  {content:>8,}  {verdict:>8,}" for name, content, verdict in shown]
    return lines + ([f"  … {len(rows) - limit:,} more"] if len(rows) > limit else [])
