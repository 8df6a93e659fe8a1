"""The tree of agreement: nobody is lost, nothing joins below its parts, and the order of input is nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_reports.page.agreement import Node, agreement, groups, join_tree, tree_svg

from ..samples import HOLE, TWICE, corpus, failing, report, run
from .samples import HOSTILE, public, several

LETTER = 6.7
"""Width of a letter of 11 pixels in a monospaced font."""
SVG = "{http://www.w3.org/2000/svg}"


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts or ():
        yield from nodes(part)


@settings(max_examples=150)
@given(
    st.dictionaries(st.integers(0, 60), st.lists(st.integers(0, 2), min_size=6, max_size=6), min_size=1,
        max_size=9), st.randoms(use_true_random=False)
)  # fmt: skip
def test_trees_keep_their_members_never_shrink_and_group_who_never_differs(
    answers: dict[int, list[int]], dice: Any
) -> None:
    """Every implementation gives one of few answers to every case."""
    members = list(answers)
    apart = {
        (a, b): sum(x != y for x, y in zip(answers[a], answers[b], strict=True))
        for a, b in combinations(sorted(members), 2)
    }
    root = join_tree(apart, members)
    assert sorted(root.members) == sorted(members)
    for node in nodes(root):
        if node.parts is None:
            assert (len(node.members), node.height) == (1, 0)
            continue
        one, other = node.parts
        assert node.members == one.members + other.members
        assert node.height >= max(one.height, other.height) - 1e-9
        pairs = [apart[min(a, b), max(a, b)] for a in one.members for b in other.members]
        assert node.height == pytest.approx(sum(pairs) / len(pairs))
    items = list(apart.items())
    dice.shuffle(members)
    dice.shuffle(items)
    assert join_tree(dict(items), members) == root
    alike = {tuple(sorted(m for m in answers if answers[m] == answers[one])) for one in answers}
    assert sorted(groups(root)) == sorted(group for group in alike if len(group) > 1)


def test_a_drawing_names_everybody_and_stays_inside() -> None:
    labels = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(12)]
    # An average that is no whole number, of four digits.
    apart = {pair: 2_000 + sum(pair) % 7 for pair in combinations(range(12), 2)}
    root = join_tree(apart, range(12))
    assert root.height % 1 > 0.5
    svg = ET.fromstring(tree_svg(root, labels, 1234))
    assert svg.get("role") == "img"
    assert "12 implementations on 1,234 cases" in (svg.get("aria-label") or "")
    wide, high = (float(svg.get(name, "0")) for name in ("width", "height"))
    assert sum(not text.get("text-anchor") for text in svg.iter(f"{SVG}text")) == 12
    for text in svg.iter(f"{SVG}text"):
        x, room = float(text.get("x", "-1")), len(text.text or "") * LETTER
        left = x - room / 2 if text.get("text-anchor") else x
        assert 0 <= left <= left + room <= wide
        assert 0 <= float(text.get("y", "-1")) <= high
        assert (text.text or "").isprintable()


def test_readers_that_never_differ_meet_at_zero_and_those_without_a_common_case_have_no_tree() -> None:
    case = corpus().reading[0].id
    same = [run(failing(case, "pass", outcome="reject"), name=name, version="1") for name in "abc"]
    found = agreement(report(*same))
    assert (found.alike, found.tree is None) == (["a 1, b 1, c 1"], False)
    apart = agreement(report(*(run(failing(case), name=case, version="1") for case in (HOLE, TWICE))))
    assert (apart.tree, apart.pairs, apart.ends, apart.clusters) == (None, [], [], [])


def test_clusters_of_few_have_everybody_and_public_reports_have_none() -> None:
    few = agreement(several())
    assert (
        sum(len(c.row.cases) for c in few.clusters) == few.part.verdict_splits + few.part.content_splits > 0
    )
    for cluster in few.clusters:
        assert sum(count for _, count, _ in cluster.answers) == 3
        assert cluster.row.cases[0] in corpus().by_id
    assert agreement(public()).clusters == []
