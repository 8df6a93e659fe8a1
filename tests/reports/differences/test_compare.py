"""Comparing runs: agreement, splits, groups, dissenters, and the text about them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_corpus.judging.content import first_disagreement
from safetensors_reports.differences.compare import compare
from safetensors_reports.differences.report import diff_lines

from ..samples import Make


def w(**fields: Any) -> dict[str, Any]:
    return {"name": "w", **fields}


def tensors(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"tensors": list(rows)}


F32, F16 = w(dtype="F32"), w(dtype="F16")
W, V, B = Make.content("w"), Make.content("v"), Make.content("w", sha256="bb")
OTHER = 'tensor "w": other bytes than the file contains (sha256 b…, not a…)'
UNKNOWN = "is reported, but the file has none of that name"


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ({}, tensors(w()), None),
        (tensors(w()), tensors(w(dtype="F32")), None),
        ({"tensors": None}, tensors(), None),
        (tensors(w(name="a")), tensors(), 'tensor "a" is missing'),
        (tensors(), tensors(w(name="\u202e")), f'tensor "\\u202e" {UNKNOWN}'),
        (tensors(w(shape=[2, 3])), tensors(w(shape=[3, 2])), 'tensor "w": shape [3, 2] instead of [2, 3]'),
        (tensors(w(dtype="F32", sha256="a")), tensors(w(sha256="b")), OTHER),
        ({"metadata": None}, {"metadata": {}}, None),
        ({"metadata": {"k": "1"}}, tensors(), None),
        ({"metadata": {"k": 1}}, {"metadata": {"k": "1"}}, "metadata \"k\" is '1' instead of 1"),
        ({"metadata": {"k": "1"}}, {"metadata": {"k": "2"}}, 'metadata "k" is \'2\' instead of "1"'),
        ({"metadata": {"k": "1"}}, {"metadata": None}, 'metadata key "k" is missing'),
        # A name reported twice: order does not matter, a row of its own does.
        (tensors(F32, F16), tensors(F16, F32), None),
        (tensors(F32), tensors(F32, F16), 'tensor "w" is reported twice'),
        (tensors(F32, F16), tensors(F32), 'tensor "w": dtype F32 instead of F16'),
    ],
)
def test_disagreement(a: Any, b: Any, text: str | None) -> None:
    found = first_disagreement(a, b)
    assert (found and found.text) == text
    assert (first_disagreement(b, a) is None) is (text is None)


@pytest.mark.parametrize(
    ("answers", "vector", "kind", "dissenter", "pairs"),
    [
        ({"x": W, "y": B, "z": W}, "A B A", "content", "y 1", {"xy": (1, 0), "xz": (0, 0), "yz": (1, 0)}),
        ({"x": W, "y": "crash"}, "A crash", "verdict", None, {"xy": (0, 1)}),
        # A case that splits both ways is a content split only.
        ({"x": W, "y": V, "z": "reject"}, "A B reject", "content", None, {"xy": (1, 0), "yz": (0, 1)}),
        # Unsupported is in the vector but has no vote, and a lost answer is not.
        (
            {"x": W, "y": "unsupported", "z": "reject", "v": W, "h": "harness-error"},
            "A unsupported reject A",
            "verdict",
            "z 1",
            {"xz": (0, 1), "xy": (0, 0)},
        ),
        # A reader that tells too little joins no side.
        ({"s": None, "x": W, "y": V}, "? A B", "content", None, {"sx": (0, 0), "xy": (1, 0)}),
    ],
)
def test_splits(
    answers: dict[str, Any], vector: str, kind: str, dissenter: str | None, pairs: dict[str, Any]
) -> None:
    found = compare([Make.answers(name, c=answer) for name, answer in answers.items()])
    (split,) = found.splits
    named = [f"{name} 1" for name in answers if name != "h"]
    tokens = [f"accept:{token}" if len(token) == 1 else token for token in vector.split()]
    assert (split.vector, split.kind) == (dict(zip(named, tokens, strict=True)), kind)
    assert split.dissenter == dissenter
    assert {pair: found.pairs[f"{pair[0]} 1", f"{pair[1]} 1"] for pair in pairs} == pairs
    if dissenter == "y 1":
        text = 'tensor "w": other bytes than the file contains (sha256 bb…, not aa…) (as x 1 reads it)'
        assert (split.difference, split.between) == (f"y 1: {text}", ("x 1", "y 1"))


def test_the_last_step_counts() -> None:
    rows = [Make.result("c", step="read", outcome="reject"), Make.result("c", step="open", outcome="accept")]
    late = Make.run(*rows, name="late", version="1")
    opens = Make.run(Make.result("c", step="open", content=Make.content("w")), name="opens", version="1")
    (split,) = compare([late, opens]).verdict_splits
    assert split.vector == {"late 1": "reject", "opens 1": "accept:A"}


def test_only_shared_cases_that_ended_are_compared() -> None:
    rows = [Make.result("b"), Make.result("c", step="open", outcome="accept")]
    cut = Make.run(*rows, name="cut", footer=None)
    found = compare([cut, Make.answers("x", a="reject", b="reject", c="reject")])
    assert [s.case for s in found.verdict_splits] == ["b"]
    assert (found.compared, found.left_out) == (1, 2)
    assert found.notes == ("truncated run: cut 0.8.0",)


def test_runs_of_one_name_stay_apart() -> None:
    runs = [Make.answers("x", c="reject"), Make.answers("x", c=None), Make.answers("x", c="reject")]
    runs[1].implementation["selector"] = "py:mine:Reader"
    found = compare(runs)
    assert found.labels == ("x 1", "py:mine:Reader 1", "x 1 #2")
    assert found.verdict_splits[0].dissenter == "py:mine:Reader 1"


def test_the_text() -> None:
    one, two = Make.content("w", metadata={"k": "1"}), Make.content("w", metadata={"k": "2"})
    runs = [
        Make.answers("x", a=one, b=one, c=one, d="reject", e=one),
        Make.answers("y", a=two, b="reject", c="reject", d="reject", e=one),
        Make.answers("z", a=one, b="reject", c="reject", d="reject", e=one, f=one),
    ]
    assert diff_lines(compare(runs)) == [
        "3 runs, cases compared 5: x 1 · y 1 · z 1",
        "  cases left out because not all runs contain them: 1",
        "content splits 1   verdict splits 2",
        "",
        "content splits: several implementations accept the file but read different content",
        "     1  accept:A x 1, z 1 · accept:B y 1",
        '        e.g. a: y 1: metadata "k" is \'2\' instead of "1" (as x 1 reads it)',
        "",
        "verdict splits: some implementations accept the file and others reject it",
        "     2  accept:A x 1 · reject y 1, z 1",
        "        e.g. b",
        "",
        "alone against all others   content   verdict",
        "  y 1                            1         0",
        "  x 1                            0         2",
        "",
        "pairs         content   verdict",
        "  x 1 / y 1         1         2",
        "  y 1 / z 1         1         0",
        "  x 1 / z 1         0         2",
    ]


def test_the_text_says_plainly_what_was_not_or_not_well_compared() -> None:
    runs = [Make.answers("x", c="reject"), Make.answers("y", c="reject")]
    alone = ["nothing to compare; a comparison needs the records of at least two runs"]
    assert diff_lines(compare([])) == diff_lines(compare(runs[:1])) == alone
    for outcome in ("unsupported", "harness-error"):
        found = compare([Make.answers("x", c=W), Make.answers("y", c=outcome)])
        assert (found.splits, found.compared, found.unanswered) == ((), 0, 1), outcome
        assert diff_lines(found)[-1].startswith("nothing was compared")
    assert diff_lines(compare(runs))[-1] == "no differences in anything that at least two runs report"
    runs[1].header |= {"profile": "text", "corpus": {**runs[1].header["corpus"], "digest": "other"}}
    corpora, profiles = compare(runs).notes
    assert (corpora[:31], profiles) == ("the runs used different corpora", "the runs used different profiles")


def test_the_limit_bounds_every_list() -> None:
    contents = [Make.content(str(i)) for i in range(6)]
    cases = {f"c{i}": [contents[(i >> k) % 2 + k] for k in range(5)] for i in range(1, 31)}
    runs = [Make.answers(f"r{k}", **{case: row[k] for case, row in cases.items()}) for k in range(5)]
    lines = diff_lines(compare(runs), limit=2)
    assert any("more outcome vectors" in line for line in lines)
    assert len(lines) < 20


texts = st.text(st.characters(exclude_categories=()), max_size=6)
names = st.sampled_from(["a", "b", "\ud800", "\n"])
fields = {"dtype": st.sampled_from(["F32", None]), "shape": st.sampled_from([[1], [2]]), "sha256": texts}
lists = st.lists(st.fixed_dictionaries({"name": names}, optional=fields), max_size=3)
pairs = {"metadata": st.none() | st.dictionaries(names, texts, max_size=2)}
contents = st.none() | st.fixed_dictionaries({"tensors": st.none() | lists}, optional=pairs)
outcomes = st.sampled_from(["reject", "unsupported", "crash", "hang", "exhausted", "harness-error"])
rows = st.lists(outcomes | contents, min_size=4, max_size=4)
tables = st.dictionaries(st.sampled_from(["a/1", "a/2", "a/3", "\udc00"]), rows)


def runs_of(table: dict[str, list[Any]]) -> list[Any]:
    return [Make.answers(f"r{i}\ud800", **{case: row[i] for case, row in table.items()}) for i in range(4)]


@given(table=tables, order=st.permutations(range(4)), seed=st.integers(0, 100))
def test_what_a_comparison_promises_whatever_the_order_of_cases_and_runs(
    table: dict[str, list[Any]], order: list[int], seed: int
) -> None:
    runs, shuffled = runs_of(table), runs_of(table)
    for run in shuffled:
        random.Random(seed).shuffle(run.results)
    found, mixed = compare(runs), compare([runs[i] for i in order])
    assert found == compare(shuffled)
    for kind in ("content_splits", "verdict_splits"):
        assert [s.case for s in getattr(found, kind)] == [s.case for s in getattr(mixed, kind)]
    pairs = [{frozenset(pair): n for pair, n in one.pairs.items()} for one in (found, mixed)]
    assert pairs[0] == pairs[1]
    assert not {s.case for s in found.content_splits} & {s.case for s in found.verdict_splits}
    for split in found.content_splits:
        assert len(set(split.vector.values()) - {"accept:?"}) >= 2
        assert {"accept:A", "accept:B"} <= set(split.vector.values())
        assert split.difference
    for split in found.verdict_splits:
        assert "accept:A" in split.vector.values()
        assert set(split.vector.values()) & {"reject", "crash", "hang", "exhausted"}
        assert "accept:B" not in split.vector.values()
    for split in found.splits:
        if split.dissenter is not None:
            assert list(split.vector.values()).count(split.vector[split.dissenter]) == 1
    assert sorted(c for one in found.clusters for c in one.cases) == sorted(s.case for s in found.splits)
    sizes = [len(cluster.cases) for cluster in found.clusters]
    assert sizes == sorted(sizes, reverse=True)
    assert all(line.isprintable() and isinstance(line.encode(), bytes) for line in diff_lines(found))
    for content in (answer for row in table.values() for answer in row if isinstance(answer, dict)):
        assert first_disagreement(content, content) is None
