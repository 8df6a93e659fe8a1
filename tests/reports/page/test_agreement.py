"""The tree of agreement, whose joins published pages show: names, the order of input, and clusters."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from safetensors_reports.page.agreement import agreement, join_tree, tree_svg

from ..samples import HOLE, TWICE, corpus, failing, report, run
from .samples import HOSTILE, public, several

LETTER = 6.7
"""Width of a letter of 11 pixels in a monospaced font."""
SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.integers(0, 5), min_size=15, max_size=15), st.randoms(use_true_random=False))
def test_the_order_of_input_is_nothing_to_a_tree(counts: list[int], dice: Any) -> None:
    pairs, members = list(zip(combinations(range(6), 2), counts, strict=True)), list(range(6))
    root = join_tree(dict(pairs), members)
    dice.shuffle(pairs)
    dice.shuffle(members)
    assert join_tree(dict(pairs), members) == root


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
