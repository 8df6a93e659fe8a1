"""The rulings on plans, compared with the rules and with cases of the corpus.

``test_broken`` shows for random plans that what is accepted and what is rejected is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from safetensors_corpus.judging.content import tensor_row
from safetensors_fuzz.plans import PLAN_KINDS
from safetensors_fuzz.plans.question import PlanError, PlanQuestion
from safetensors_fuzz.plans.values import Plan

from .support import slicing, span


def question(step: str, plan: Plan) -> PlanQuestion:
    return PLAN_KINDS[step].question(plan)


SLICES = [
    (slicing([4], span(0, 5)), "slice-bounds"),
    (slicing([4], span(0, 5, 2)), "slice-bounds"),
    (slicing([4], span(0, 2**63)), "slice-huge-bounds"),
    (slicing([4], span(0, 4, 2**63)), "slice-huge-bounds"),
    (slicing([4], span(0, 4, 2**62)), "slice-step"),
    (slicing([4], span(4, None)), "slice-empty-at-end"),
    (slicing([4], span(3, 1)), "slice-reversed"),
    (slicing([4], span(-2, None)), "slice-negative-bounds"),
    (slicing([4], span(-9, None)), "slice-negative-beyond"),
    (slicing([0, 3], span()), "slice-zero-dimension"),
    (slicing([0, 3], "..."), "slice-zero-dimension"),
    (slicing([4], span(0, 4, 2)), "slice-step"),
    (slicing([4], span(None, None, -1)), "slice-negative-step"),
    (slicing([4], None), "slice-new-axis"),
    (slicing([4], [1, 0]), "slice-list"),
    (slicing([4, 2], []), "slice-list"),
    (slicing([4], True), "slice-bool"),
    (slicing([4, 4], span(0, 4, 2), dtype="F4"), "slice-packed"),
    (slicing([8], span(4, 10), dtype="F4"), "slice-packed"),
]


A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def shard(name: str, *tensors: str, **more: Any) -> dict[str, Any]:
    rows = [{"name": tensor, "dtype": "F32", "shape": [2]} for tensor in tensors]
    return {"name": name, "tensors": rows, "metadata": None, "fault": None} | more


def loading(*pairs: list[Any], shards: list[Any] | None = None, **more: Any) -> Plan:
    shards = [shard(A, "a"), shard(B, "b")] if shards is None else shards
    plan = {"shards": shards, "map": [list(pair) for pair in pairs or (["a", A], ["b", B])], "others": []}
    return plan | {"metadata": '{"total_size":$n}', "text": "plain"} | more


SURPLUS = loading(shards=[shard(A, "a", "c"), shard(B, "b")])
INDEXES = [
    (loading(["a", "./" + A], ["b", B]), "index-dot-slash"),
    (loading(["a", "sub/a.safetensors"], shards=[shard("sub/a.safetensors", "a")]), "index-subfolder"),
    (SURPLUS, "index-surplus-tensor"),
    (loading(shards=[shard(A, "a", "b"), shard(B, "b")]), "index-tensor-twice"),
    (loading(text="index-bom"), "index-bom"),
    (loading(text="index-flat-map"), "index-flat-map"),
    (loading(text="index-unknown-members"), "index-unknown-members"),
    (loading(metadata='{"total_size":17}'), "index-total-size"),
    (loading(metadata='{"total_size":"$n"}'), "index-total-size-type"),
    (loading(metadata=None), "index-metadata"),
    (loading(metadata="[]"), "index-metadata-type"),
    (loading() | {"map": []}, "index-empty-map"),
    (loading(others=[["b.safetensors.index.json", "index"]]), "index-several"),
]


def writing(*tensors: Mapping[str, Any], **more: Any) -> Plan:
    plain = {"dtype": "F32", "shape": [2], "storage": "m", "offset": 0, "strides": None}
    plain |= {"byteorder": "little", "nbytes": None}
    rows = [{"name": name, **plain, **tensor} for name, tensor in zip("abcd", tensors, strict=False)]
    plan: Plan = {"storages": {"m": {"size": 64, "fill": "", "guard": False}}, "tensors": rows}
    plan |= {"metadata": None, "target": "new", "before": [], "properties": [], "file_size_limit": None}
    return plan | more


WRITES = [
    (writing({"shape": [3, 2], "strides": [4, 12]}), "non-contiguous"),
    (writing({"offset": 4, "strides": [-4]}), "non-contiguous"),
    (writing({"byteorder": "big"}), "big-endian"),
    (writing({"byteorder": "big", "shape": [3, 2], "strides": [4, 12]}), "big-endian-view"),
    (writing({}, {}), "shared-memory"),
    (writing({}, target="missing-folder"), "missing-folder"),
]


RULINGS = {"slice": SLICES, "index": INDEXES, "write": WRITES}


@pytest.mark.parametrize(
    ("step", "plan", "choice"), [(step, *row) for step, rows in RULINGS.items() for row in rows]
)
def test_the_choice_of_a_plan(step: str, plan: Plan, choice: str) -> None:
    assert question(step, plan).expectation.get("choice") == choice


@pytest.mark.parametrize(
    ("step", "plan", "code"),
    [
        ("slice", slicing([4], 0, fault="hole"), "OFF_HOLE"),
        ("index", loading(shards=[shard(A, "a", fault="hole"), shard(B, "b")]), "OFF_HOLE"),
    ],
)
def test_a_plan_with_a_broken_file_is_refused(step: str, plan: Plan, code: str) -> None:
    found = question(step, plan).expectation
    assert (found["outcome"], found["codes"][0]) == ("reject", code)


def test_the_content_of_a_slice_is_what_numpy_picks() -> None:
    asked = question("slice", slicing([2, 3], 1, span(1, None), dtype="U8"))
    row = asked.expectation["content"]["tensors"][0]
    assert row == tensor_row("t", "U8", [2], bytes([5, 6]))
    packed = question("slice", slicing([2, 4], 1, dtype="F4"))
    assert packed.expectation["content"]["tensors"][0] == tensor_row("t", "F4", [4], bytes([3, 4]))


def test_a_truth_value_has_three_meanings() -> None:
    options = question("slice", slicing([2, 2], True, dtype="U8")).expectation["options"]
    assert options["integer"]["content"]["tensors"][0] == tensor_row("t", "U8", [2], bytes([3, 4]))
    assert options["mask"]["content"]["tensors"][0]["shape"] == [1, 2, 2]
    outside = question("slice", slicing([1], True)).expectation["options"]
    assert outside["integer"]["outcome"] == "reject"


@pytest.mark.parametrize("value", [{"file": A}, [A]])
def test_plans_that_map_a_tensor_to_no_string_are_made_smaller(value: Any) -> None:
    smaller = list(PLAN_KINDS["index"].smaller(loading(["a", A], ["b", value])))
    assert loading(["b", value], shards=[shard(B, "b")]) in smaller


def test_a_surplus_tensor_is_loaded_or_not() -> None:
    options = question("index", SURPLUS).expectation["options"]
    assert [t["name"] for t in options["ignore"]["content"]["tensors"]] == ["a", "b"]
    assert [t["name"] for t in options["load"]["content"]["tensors"]] == ["a", "b", "c"]
    assert options["reject"]["codes"] == ["IDX_TENSOR_UNINDEXED"]


@pytest.mark.parametrize(
    ("pair", "level"), [(["b", A], "should"), (["b", "../outside/x.safetensors"], "must")]
)
def test_a_tensor_that_is_not_in_its_shard_is_a_recommendation(pair: list[str], level: str) -> None:
    asked = question("index", loading(["a", B if level == "should" else A], pair))
    assert asked.expectation["level"] == level


def test_of_shared_memory_the_first_that_holds_all_is_kept() -> None:
    plan = writing({"name": "z", "shape": [4]}, {"name": "b", "shape": [4]}, {"name": "a", "shape": [2]})
    options = question("write", plan).expectation["options"]
    assert [t["name"] for t in options["copy"]["content"]["tensors"]] == ["z", "b", "a"]
    assert [t["name"] for t in options["once"]["content"]["tensors"]] == ["b"]
    assert options["noted"]["content"]["metadata"] == {"z": "b", "a": "b"}
    halves = writing({"shape": [3]}, {"shape": [3], "offset": 4})
    assert question("write", halves).expectation["options"]["once"]["outcome"] == "reject"


def test_recommendations_are_none_of_a_must() -> None:
    asked = question("write", writing({}, properties=["aligned"]))
    assert asked.expectation["level"] == "should"
    assert asked.rules == ("WRT-01", "WRT-04")
    with pytest.raises(PlanError, match="cannot be combined with a choice"):
        question("write", writing({"byteorder": "big"}, properties=["aligned"]))


UNDECIDED = {
    "slice": [
        (slicing([8], span(1, 1), dtype="F4"), "inside a byte"),
        (slicing([8], span(None, None, -1), dtype="F4"), "cannot be reordered"),
        (slicing([3], dtype="F4"), "not a whole number of bytes"),
        (slicing([4], True, 0), "Boolean"),
        (slicing([4, 4], [0], 0), "cannot be combined with integers"),
    ],
    "index": [
        (loading(shards=[shard(A), shard(A)]), "same path"),
        (loading(shards=[shard("../outside/../a.safetensors")]), "invalid shard path"),
        (loading(shards=[shard(A, "a", "a")]), "duplicate or reserved"),
        (loading(shards=[shard(A, fault="name-twice")]), "nothing to which this fault applies"),
    ],
    "write": [
        (writing({"offset": 60}), "does not fit in the memory"),
        (writing({"strides": [99]}), "does not fit in the memory"),
        (writing({"strides": [1, 2]}), "strides do not match the shape"),
        (writing({"nbytes": 8}), "must differ"),
        (writing({"dtype": "BOOL"}), "BOOL element"),
        (writing({}, metadata={"value": {}}), "no metadata"),
        (writing({}, metadata={"items": [["k", "v"], ["k", "w"]]}), "duplicate"),
        (writing({}, metadata={"items": [[]]}), "invalid metadata"),
        (writing({}, properties=["fast"]), "unknown properties"),
        (writing({}, properties=["no-foreign-bytes"]), "foreign"),
        (writing({}, file_size_limit=4096), "might fit"),
        (writing({}, {}, target="missing-folder"), "several choices"),
    ],
}
"""Inconsistent plans, and plans that no rule decides, with the message of the error."""


@pytest.mark.parametrize(
    ("step", "plan", "message"),
    [(step, plan, message) for step, rows in UNDECIDED.items() for plan, message in rows],
)
def test_a_plan_that_no_rule_decides_is_an_error(step: str, plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        question(step, plan)
