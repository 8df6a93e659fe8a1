"""The tree of agreement, whose joins published pages show: names, the order of input, and clusters."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from safetensors_reports.page.agreement import agreement, join_tree

from ..samples import HOLE, TWICE, corpus, failing, report, run
from .samples import public, several


@given(st.lists(st.integers(0, 5), min_size=15, max_size=15), st.randoms(use_true_random=False))
def test_the_order_of_input_is_nothing_to_a_tree(counts: list[int], dice: Any) -> None:
    pairs, members = list(zip(combinations(range(6), 2), counts, strict=True)), list(range(6))
    root = join_tree(dict(pairs), members)
    dice.shuffle(pairs)
    dice.shuffle(members)
    assert join_tree(dict(pairs), members) == root


def test_readers_that_never_differ_meet_at_zero_and_those_without_a_common_case_have_no_tree() -> None:
    case = corpus().reading[0].id
    same = [run(failing(case, "pass", outcome="reject"), name=name, version="1") for name in "abc"]
    found = agreement(report(*same))
    assert (found.alike, found.tree is None) == (["a 1, b 1, c 1"], False)
    apart = agreement(report(*(run(failing(case), name=case, version="1") for case in (HOLE, TWICE))))
    assert (apart.tree, apart.pairs, apart.ends, apart.clusters) == (None, [], [], [])


def test_clusters_of_few_have_everybody_and_public_reports_have_none() -> None:
    few = agreement(several())
    splits = few.part.verdict_splits + few.part.content_splits
    assert sum(len(c.row.cases) for c in few.clusters) == splits > 0
    for cluster in few.clusters:
        assert sum(count for _, count, _ in cluster.answers) == 3
        assert cluster.row.cases[0] in corpus().by_id
    assert agreement(public()).clusters == []
