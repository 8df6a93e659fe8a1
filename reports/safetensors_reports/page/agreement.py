"""The agreement between implementations, shown as a tree, pairs and clusters, regardless of who is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from markupsafe import Markup, escape

from ..audit.report import AgreementPart, ClusterRow, PairRow, Report
from ..drawing.canvas import fit_label
from ..text import listed

MAX_CLUSTERS = 40
MAX_PAIRED = 12
ROW = 19
WIDTH = 880
TREE = 560
"""Width of the tree in pixels, without the names on its right."""
LEFT, TOP = 20, 34
MAX_LABEL = 40


class PairText(NamedTuple):
    """Two labels, and the numbers of cases on which their answers differ."""

    one: str
    other: str
    content: int
    verdict: int


class ClusterText(NamedTuple):
    """A cluster for display; an answer names its labels only if there are few."""

    number: int
    example: str
    answers: list[tuple[str, int, str]]
    difference: str


@dataclass
class Agreement:
    """Agreement for display; for many implementations, ``ends`` (nearest, farthest) replaces ``pairs``."""

    part: AgreementPart
    tree: Markup | None = None
    alike: list[str] = field(default_factory=list)
    ends: list[tuple[PairText, PairText]] = field(default_factory=list)
    pairs: list[PairText] = field(default_factory=list)
    clusters: list[ClusterText] = field(default_factory=list)
    more: int = 0


def agreement(report: Report) -> Agreement:
    part = report.agreement
    labels = {i: one.label for i, one in enumerate(report.implementations)}
    members = sorted({i for pair in part.pairs for i in pair.between})
    out = Agreement(part)
    if len(members) < 2 or not part.compared:
        return out
    by_pair = {(min(p.between), max(p.between)): p for p in part.pairs}
    # A case counts in at most one of the two numbers of a pair, so they may be added here.
    apart = {pair: p.content + p.verdict for pair, p in by_pair.items()}
    root = join_tree(apart, members)
    if root is not None:
        out.tree = tree_svg(root, labels, part.compared)
        out.alike = [listed([labels[i] for i in group], 12) for group in groups(root)]
    if len(members) <= MAX_PAIRED:
        out.pairs = [
            PairText(labels[a], labels[b], by_pair[a, b].content, by_pair[a, b].verdict)
            for a, b in sorted(by_pair, key=apart.__getitem__)
        ]
    else:
        out.ends = [_ends(i, members, by_pair, apart, labels) for i in members]
    out.clusters = [_cluster(c, labels) for c in part.clusters[:MAX_CLUSTERS]]
    out.more = max(len(part.clusters) - MAX_CLUSTERS, 0)
    return out


def _ends(
    one: int,
    members: list[int],
    by_pair: Mapping[tuple[int, int], PairRow],
    apart: Mapping[tuple[int, int], int],
    labels: Mapping[int, str],
) -> tuple[PairText, PairText]:
    others = [(min(one, o), max(one, o)) for o in members if o != one]
    others = [pair for pair in others if pair in apart]
    near, far = min(others, key=apart.__getitem__), max(others, key=apart.__getitem__)

    def pair_text(pair: tuple[int, int]) -> PairText:
        other = pair[0] if pair[1] == one else pair[1]
        return PairText(labels[one], labels[other], by_pair[pair].content, by_pair[pair].verdict)

    return pair_text(near), pair_text(far)


def _cluster(cluster: ClusterRow, labels: Mapping[int, str]) -> ClusterText:
    answers = sorted(cluster.answers.items(), key=lambda item: (-len(item[1]), item[0]))
    return ClusterText(
        number=len(cluster.cases),
        example=cluster.cases[0],
        # Do not name the members of the largest group unless it is small.
        answers=[
            (token, len(group), listed([labels[i] for i in group], 4) if number or len(group) <= 4 else "")
            for number, (token, group) in enumerate(answers)
        ],
        difference=cluster.difference,
    )


@dataclass(frozen=True)
class Node:
    """A group of implementations; its two parts differ in ``height`` answers on average."""

    members: tuple[int, ...]
    height: float = 0.0
    parts: tuple[Node, Node] | None = None


def join_tree(apart: Mapping[tuple[int, int], int], members: Sequence[int]) -> Node | None:
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
    return nodes[0] if nodes else None


def groups(node: Node | None) -> list[tuple[int, ...]]:
    if node is None or len(node.members) < 2:
        return []
    if node.height == 0 or node.parts is None:
        return [tuple(sorted(node.members))]
    return groups(node.parts[0]) + groups(node.parts[1])


def tree_svg(node: Node, labels: Mapping[int, str], compared: int) -> Markup:
    rows = {member: i for i, member in enumerate(node.members)}
    height = TOP + ROW * len(rows) + 8
    most = max(node.height, 1.0)
    parts: list[str] = []

    def x(cases: float) -> float:
        return LEFT + TREE * (1 - cases / most)

    def draw(one: Node) -> float:
        if one.parts is None:
            return TOP + ROW * (rows[one.members[0]] + 0.5)
        here, ends = x(one.height), [draw(part) for part in one.parts]
        for part, y in zip(one.parts, ends, strict=True):
            parts.append(f'<path d="M{here:.1f} {y:.1f}H{x(part.height):.1f}"/>')
        parts.append(f'<path d="M{here:.1f} {ends[0]:.1f}V{ends[1]:.1f}"/>')
        return sum(ends) / 2

    draw(node)
    # Round down to stay within the tree.
    ticks = sorted({int(most * share) for share in (0, 0.25, 0.5, 0.75, 1)})
    axis = "".join(
        f'<path class="tick" d="M{x(t):.1f} {TOP - 6}V{height - 8}"/>'
        f'<text x="{x(t):.1f}" y="{TOP - 12}" text-anchor="middle">{t:,}</text>'
        for t in ticks
    )
    texts = "".join(
        f'<text x="{LEFT + TREE + 8}" y="{TOP + ROW * (i + 0.5) + 4:.1f}">'
        f"{escape(fit_label(labels[m], MAX_LABEL))}</text>"
        for m, i in rows.items()
    )
    title = f"Agreement of {len(rows)} implementations on {compared:,} cases"
    return Markup(  # noqa: S704 - numbers, and names that were escaped
        f'<svg class="tree" role="img" aria-label="{title}; see the table below" '
        f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'xmlns="http://www.w3.org/2000/svg">{axis}<g class="branch">{"".join(parts)}</g>{texts}</svg>'
    )
