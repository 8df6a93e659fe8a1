"""The agreement between implementations, shown as a tree, pairs and clusters, regardless of who is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from markupsafe import Markup, escape

from ..audit.report import AgreementPart, ClusterRow, Report
from ..text import listed
from .design import fit_label, render_markup

MAX_CLUSTERS = 40
MAX_PAIRED = 12
ROW = 19
WIDTH = 880
TREE = 560
"""Width of the tree in pixels, without the names on its right."""
LEFT, TOP = 20, 34
MAX_LABEL = 40


Pair = tuple[str, str, int, int]
"""Two labels, with counts of the cases on which their contents and their verdicts differ."""


class Cluster(NamedTuple):
    """Cases on which implementations split in the same way.

    ``answers`` names the labels only if there are few.
    """

    row: ClusterRow
    answers: list[tuple[str, int, str]]


@dataclass
class Agreement:
    """Agreement for display; for many implementations, ``ends`` (nearest, farthest) replaces ``pairs``."""

    part: AgreementPart
    tree: Markup | None = None
    alike: list[str] = field(default_factory=list)
    ends: list[tuple[Pair, Pair]] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)


def agreement(report: Report) -> Agreement:
    part = report.agreement
    labels = [who.label for who in report.implementations]
    by_pair = {(min(pair.between), max(pair.between)): pair for pair in part.pairs}
    members = sorted({i for pair in by_pair for i in pair})
    out = Agreement(part)
    if len(members) < 2 or not part.compared:
        return out
    # A case counts in at most one of the two numbers of a pair, so they may be added here.
    apart = {pair: row.content + row.verdict for pair, row in by_pair.items()}
    root = join_tree(apart, members)
    out.tree = tree_svg(root, labels, part.compared)
    out.alike = [listed([labels[i] for i in group], 12) for group in groups(root)]

    def shown(pair: tuple[int, int], one: int) -> Pair:
        other = pair[0] if pair[1] == one else pair[1]
        return labels[one], labels[other], by_pair[pair].content, by_pair[pair].verdict

    if len(members) <= MAX_PAIRED:
        out.pairs = [shown(pair, pair[0]) for pair in sorted(by_pair, key=apart.__getitem__)]
    else:
        for one in members:
            mine = sorted(pair for pair in apart if one in pair)
            near, far = min(mine, key=apart.__getitem__), max(mine, key=apart.__getitem__)
            out.ends.append((shown(near, one), shown(far, one)))
    for row in part.clusters[:MAX_CLUSTERS]:
        answers = sorted(row.answers.items(), key=lambda item: (-len(item[1]), item[0]))
        named = [
            # Do not name the members of the largest group unless it is small.
            (token, len(group), listed([labels[i] for i in group], 4) if number or len(group) <= 4 else "")
            for number, (token, group) in enumerate(answers)
        ]
        out.clusters.append(Cluster(row, named))
    return out


@dataclass(frozen=True)
class Node:
    """A group of implementations; its two parts differ in ``height`` answers on average."""

    members: tuple[int, ...]
    height: float = 0.0
    parts: tuple[Node, Node] | None = None


def join_tree(apart: Mapping[tuple[int, int], int], members: Sequence[int]) -> Node:
    """Join implementations by average linkage; ``apart`` counts different answers by sorted pair."""
    nodes = [Node((member,)) for member in sorted(members)]

    def distance(one: Node, other: Node) -> float:
        pairs = [(min(a, b), max(a, b)) for a in one.members for b in other.members]
        return sum(apart.get(pair, 0) for pair in pairs) / len(pairs)

    while len(nodes) > 1:
        # Break ties by order, so that the same report always produces the same tree.
        height, one, other = min(
            ((distance(a, b), a, b) for a, b in combinations(nodes, 2)), key=lambda t: (t[0], t[1].members)
        )
        nodes = [n for n in nodes if n is not one and n is not other]
        nodes.append(Node(one.members + other.members, height, (one, other)))
        nodes.sort(key=lambda n: min(n.members))
    return nodes[0]


def groups(node: Node) -> list[tuple[int, ...]]:
    if len(node.members) < 2:
        return []
    if node.height == 0 or node.parts is None:
        return [tuple(sorted(node.members))]
    return groups(node.parts[0]) + groups(node.parts[1])


def tree_svg(node: Node, labels: Sequence[str], compared: int) -> Markup:
    rows = {member: TOP + ROW * (i + 0.5) for i, member in enumerate(node.members)}
    most = max(node.height, 1.0)
    branches: list[str] = []

    def x(cases: float) -> float:
        return LEFT + TREE * (1 - cases / most)

    def draw(one: Node) -> float:
        if one.parts is None:
            return rows[one.members[0]]
        here, ends = x(one.height), [draw(part) for part in one.parts]
        for part, y in zip(one.parts, ends, strict=True):
            branches.append(f"M{here:.1f} {y:.1f}H{x(part.height):.1f}")
        branches.append(f"M{here:.1f} {ends[0]:.1f}V{ends[1]:.1f}")
        return sum(ends) / 2

    draw(node)
    # Round down to stay within the tree.
    ticks = sorted({int(most * share) for share in (0, 0.25, 0.5, 0.75, 1)})
    return render_markup(
        "tree.svg",
        compared=compared,
        width=WIDTH,
        height=TOP + ROW * len(rows) + 8,
        top=TOP,
        ticks=[(x(tick), tick) for tick in ticks],
        branches=branches,
        names=[(y + 4, escape(fit_label(labels[m], MAX_LABEL))) for m, y in rows.items()],
        names_at=LEFT + TREE + 8,
    ).strip()
