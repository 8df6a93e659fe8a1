"""Contents that are too large to keep: what is kept of them, and that they compare as whole ones do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_conformance import outcome
from safetensors_conformance.differential import dump
from safetensors_conformance.outcome import KEPT_CONTENT, MAX_CONTENT, MAX_TOTAL, KeptContent, StepResult
from safetensors_corpus import load_manifest
from safetensors_corpus.judging.content import bounded, first_disagreement, size_of
from safetensors_reports.audit.findings import got_text

from ...published_schemas import schema_error

texts = st.text(max_size=3) | st.just("\ud800")
VALUES: dict[str, Any] = {"dtype": ["F32", "U8"], "shape": [[], [1]], "nbytes": [0, 1], "sha256": ["a", "b"]}
rows = st.fixed_dictionaries({"name": texts} | {key: st.sampled_from(some) for key, some in VALUES.items()})
contents = st.fixed_dictionaries(
    {"tensors": st.lists(rows, max_size=3, unique_by=lambda row: row["name"])},
    optional={"metadata": st.none() | st.dictionaries(texts, texts | st.integers(), max_size=2)},
)
Content = dict[str, Any]


def apart(a: Content, b: Content) -> bool:
    return first_disagreement(a, b) is not None


@given(contents, contents, st.randoms(use_true_random=False))
def test_a_cut_content_differs_from_others_as_the_whole_does(a: Content, b: Content, random: Any) -> None:
    expected = apart(a, b)
    other = {**b, "tensors": random.sample(b["tensors"], len(b["tensors"]))}
    for one in (a, bounded(a, 100)):
        for two in (b, other, bounded(other, 100)):
            assert apart(one, two) == expected
            assert apart(two, one) == expected


@given(contents)
def test_who_is_silent_about_a_field_does_not_differ_in_it(a: Content) -> None:
    silent = {"tensors": [{"name": row["name"], "dtype": row["dtype"]} for row in a["tensors"]]}
    assert not apart(bounded(a, 100), silent)
    assert not apart(bounded(a, 100), bounded(silent, 100))
    assert not apart({}, bounded(a, 100))


@given(contents, st.integers(0, 400))
def test_a_cut_content_has_its_bound_and_fits_a_record(a: Content, kept: int) -> None:
    cut = bounded(a, kept)
    assert size_of({key: cut[key] for key in ("tensors", "metadata") if cut.get(key)}) <= kept + 40
    row = {"case": "a/b", "step": "read", "outcome": "accept", "verdict": "pass", "content": cut}
    assert schema_error("record", {"type": "result", **row}) is None
    assert got_text(row).startswith(f"accept, {len(a['tensors'])} tensor")


def answer(count: int) -> StepResult:
    rows = [
        {"name": f"t{i}", "dtype": "F32", "shape": [i], "nbytes": 4, "sha256": "0" * 64} for i in range(count)
    ]
    return StepResult("accept", tensors=rows, metadata={"k": "v" * count}, has_metadata=True)


def test_large_answers_are_cut_and_so_are_the_many(monkeypatch: pytest.MonkeyPatch) -> None:
    most = MAX_TOTAL // 16
    monkeypatch.setattr(outcome, "MAX_TOTAL", most)
    memory, large, other = KeptContent(), answer(20_000), answer(20_000)
    cut = memory.kept(large)
    assert size_of(cut.content or {}) < 2 * KEPT_CONTENT
    assert (cut.content or {})["tensor_count"] == 20_000
    assert memory.kept(cut) is cut
    many = answer(1000)
    size = size_of(many.content or {})
    assert size < MAX_CONTENT
    assert memory.kept(many) is many
    kept = [memory.kept(many) for _ in range(int(most / size) + 50)]
    assert sum(size_of(one.content or {}) for one in kept) < most + 60 * 2 * KEPT_CONTENT
    assert memory.kept(answer(3)).cut is None
    # The dump of a cut answer has its count and a digest of all of it.
    assert other.tensors is not None
    other.tensors[-1]["sha256"] = "1" * 64
    dumps = [dump(KeptContent().kept(result)) for result in (large, answer(20_000), other)]
    assert [d["count"] for d in dumps] == [20_000] * 3
    assert dumps[0] == dumps[1]
    assert dumps[0]["digest"] != dumps[2]["digest"]
    assert len(json.dumps(dumps)) < 100_000


def test_what_valid_files_hold_is_kept_whole() -> None:
    memory = KeptContent()
    for case in load_manifest().cases:
        for demand in case.demands:
            if "tensors" in (told := demand.content or {}):
                result = StepResult(
                    "accept", tensors=told["tensors"], metadata=told["metadata"], has_metadata=True
                )
                assert memory.kept(result) is result, case.id
