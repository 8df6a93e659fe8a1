"""The tree of agreement: nobody is lost, nothing joins below its parts, and the order of input is nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_reports.page.agreement import MAX_PAIRED, Node, agreement, groups, join_tree, tree_svg

from ..samples import HOLE, TWICE, corpus, failing, report, run
from .samples import HOSTILE, many, public, several

LETTER = 6.7
"""Width of a letter of 11 pixels in a monospaced font."""
Apart = dict[tuple[int, int], int]


@st.composite
def distances(draw: st.DrawFn) -> tuple[Apart, list[int]]:
    """Cases answered differently: every implementation gives one of few answers to every case."""
    members = draw(st.lists(st.integers(0, 60), min_size=1, max_size=9, unique=True))
    answers = {m: draw(st.lists(st.integers(0, 2), min_size=6, max_size=6)) for m in members}
    apart = {
        (a, b): sum(x != y for x, y in zip(answers[a], answers[b], strict=True))
        for a, b in combinations(sorted(members), 2)
    }
    return apart, members


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts or ():
        yield from nodes(part)


@settings(max_examples=150)
@given(distances(), st.randoms(use_true_random=False))
def test_trees_keep_their_members_and_never_shrink(given_: tuple[Apart, list[int]], dice: object) -> None:
    apart, members = given_
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
    shuffled = list(members)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    items = list(apart.items())
    dice.shuffle(items)  # type: ignore[attr-defined]
    assert join_tree(dict(items), shuffled) == root


@settings(max_examples=150)
@given(distances())
def test_groups_are_those_without_any_difference(given_: tuple[Apart, list[int]]) -> None:
    apart, members = given_
    alike = {m: {m} | {o for o in members if o != m and not apart[min(m, o), max(m, o)]} for m in members}
    expected = {tuple(sorted(group)) for group in alike.values() if len(group) > 1}
    found = groups(join_tree(apart, members))
    assert set(found) == expected
    assert len(found) == len(expected)


def test_one_member_is_a_leaf() -> None:
    leaf = join_tree({}, [7])
    assert leaf == Node((7,))
    assert groups(leaf) == []


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
    names = [t for t in svg.iter("{http://www.w3.org/2000/svg}text") if not t.get("text-anchor")]
    assert len(names) == 12
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        x, room = float(text.get("x", "-1")), len(text.text or "") * LETTER
        left = x - room / 2 if text.get("text-anchor") else x
        assert 0 <= left <= left + room <= wide
        assert 0 <= float(text.get("y", "-1")) <= high
        assert (text.text or "").isprintable()


def test_answers_that_nobody_differs_in_meet_at_zero() -> None:
    case = corpus().reading[0].id
    same = [run(failing(case, "pass", outcome="reject"), name=name, version="1") for name in "abc"]
    found = agreement(report(*same))
    assert found.alike == ["a 1, b 1, c 1"]
    assert found.tree is not None


def test_pairs_while_they_are_few_and_the_nearest_and_farthest_of_many() -> None:
    few = agreement(several())
    assert (len(few.pairs), few.ends) == (3, [])
    apart = [p.content + p.verdict for p in few.pairs]
    assert apart == sorted(apart)
    assert apart[0] > 0
    lots = agreement(many())
    assert lots.pairs == []
    assert len(lots.ends) == 25 > MAX_PAIRED
    for near, far in lots.ends:
        assert near.content + near.verdict <= far.content + far.verdict
        assert near.one == far.one
        assert near.one not in (near.other, far.other)


def test_clusters_are_worded_and_published_pages_have_none() -> None:
    found = agreement(several())
    assert found.clusters
    assert sum(len(c.row.cases) for c in found.clusters) == (
        found.part.verdict_splits + found.part.content_splits
    )
    for cluster in found.clusters:
        assert sum(count for _, count, _ in cluster.answers) == 3
        assert cluster.row.cases[0] in corpus().by_id
    assert agreement(public()).clusters == []


def test_readers_without_a_common_case_have_no_tree() -> None:
    first, second = (run(failing(case), name=case, version="1") for case in (HOLE, TWICE))
    found = agreement(report(first, second))
    assert (found.tree, found.pairs, found.ends, found.clusters) == (None, [], [], [])
