"""The part of a page about who disagrees with whom, whoever is right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..text import listed
from .tree import groups, join, tree_svg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup

    from ..audit.build import Report

CLUSTERS = 40
"""Most clusters listed."""
MATRIX = 12
"""Most implementations whose pairs are all listed; of more each one's nearest and farthest are."""
Row = dict[str, Any]


@dataclass
class Agreement:
    """What a page tells about agreement.

    Attributes:
        part: the report's own part.
        tree: the drawing, None for fewer than two.
        alike: groups that answer every compared case alike.
        rows: per implementation its label, the nearest and the farthest other ones with their splits.
        pairs: all pairs, where there are few.
        clusters: the largest clusters, worded; ``more`` are left out.
    """

    part: Row
    tree: Markup | None = None
    alike: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    pairs: list[Row] = field(default_factory=list)
    clusters: list[Row] = field(default_factory=list)
    more: int = 0


def agreement(report: Report) -> Agreement:
    """Return the part about agreement of a report."""
    part = report["agreement"]
    labels = {i: who["label"] for i, who in enumerate(report["implementations"])}
    members = sorted({i for pair in part["pairs"] for i in pair["between"]})
    out = Agreement(part)
    if len(members) < 2 or not part["compared"]:
        return out
    by_pair = {(min(p["between"]), max(p["between"])): p for p in part["pairs"]}
    # No case splits a pair both ways, so that the two numbers may be added here and nowhere else.
    apart = {pair: p["content"] + p["verdict"] for pair, p in by_pair.items()}
    root = join(apart, members)
    if root is not None:
        out.tree = tree_svg(root, labels, part["compared"])
        out.alike = [listed([labels[i] for i in group], 12) for group in groups(root)]
    if len(members) <= MATRIX:
        out.pairs = [
            {"one": labels[a], "other": labels[b], **by_pair[a, b]}
            for a, b in sorted(by_pair, key=apart.get)  # type: ignore[arg-type]
        ]
    else:
        out.rows = [_ends(i, members, by_pair, apart, labels) for i in members]
    out.clusters = [_cluster(c, labels) for c in part["clusters"][:CLUSTERS]]
    out.more = max(len(part["clusters"]) - CLUSTERS, 0)
    return out


def _ends(
    one: int,
    members: list[int],
    by_pair: Mapping[tuple[int, int], Row],
    apart: Mapping[tuple[int, int], int],
    labels: Mapping[int, str],
) -> Row:
    others = [(min(one, o), max(one, o)) for o in members if o != one]
    others = [pair for pair in others if pair in apart]
    near, far = min(others, key=apart.__getitem__), max(others, key=apart.__getitem__)

    def told(pair: tuple[int, int]) -> Row:
        other = pair[0] if pair[1] == one else pair[1]
        return {"label": labels[other], **by_pair[pair]}

    return {"label": labels[one], "near": told(near), "far": told(far)}


def _cluster(cluster: Row, labels: Mapping[int, str]) -> Row:
    answers = sorted(cluster["answers"].items(), key=lambda item: (-len(item[1]), item[0]))
    between = cluster["between"]
    return {
        "kind": cluster["kind"],
        "count": len(cluster["cases"]),
        "example": cluster["cases"][0],
        # The many are counted; the few are who one wants to read about.
        "answers": [
            (token, len(who), listed([labels[i] for i in who], 4) if number or len(who) <= 4 else "")
            for number, (token, who) in enumerate(answers)
        ],
        "difference": cluster["difference"],
        "between": " / ".join(labels[i] for i in between) if between else "",
    }
