"""The rulings on plans, compared with the rules and with cases of the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from safetensors_corpus.manifest import tensor_row
from safetensors_fuzz.plans import PLAN_KINDS
from safetensors_fuzz.plans.question import PlanError, PlanQuestion
from safetensors_fuzz.plans.values import Plan


def question(step: str, plan: Plan) -> PlanQuestion:
    return PLAN_KINDS[step].question(plan)


def span(start: int | None = None, stop: int | None = None, step: int | None = None) -> dict[str, Any]:
    return {"start": start, "stop": stop, "step": step}


def slicing(shape: list[int], *index: Any, dtype: str = "I16", **more: Any) -> Plan:
    tensor = {"name": "t", "dtype": dtype, "shape": shape}
    plan = {
        "tensors": [tensor],
        "backwards": False,
        "pad": 0,
        "fault": None,
        "ask": "t",
        "index": list(index),
    }
    return plan | more


SLICES: dict[str, tuple[Plan, str]] = {
    "rows": (slicing([4, 6], span(1, 3)), "accept"),
    "nothing in the middle": (slicing([4, 6], span(2, 2)), "accept"),
    "nothing asked": (slicing([0, 3]), "accept"),
    "scalar": (slicing([], "..."), "accept"),
    "negative integer": (slicing([4], -4), "accept"),
    "step 1": (slicing([4], span(0, 4, 1)), "accept"),
    "integer at size": (slicing([4], 4), "reject"),
    "integer before": (slicing([4], -5), "reject"),
    "integer in nothing": (slicing([0], 0), "reject"),
    "integer of 64 bits": (slicing([4], 2**64), "reject"),
    "too many": (slicing([4], 0, 0), "reject"),
    "index of a scalar": (slicing([], span()), "reject"),
    "two ellipses": (slicing([4, 6], "...", "..."), "reject"),
    "float": (slicing([4], 1.0), "reject"),
    "text as bound": (slicing([4], span("a")), "reject"),  # type: ignore[arg-type] # that is the fault
    "step 0": (slicing([4], span(0, 0, 0)), "reject"),
    "list outside": (slicing([4], [0, 4]), "reject"),
    "unknown name": (slicing([4], 0, ask="T"), "reject"),
    "hole": (slicing([4], 0, fault="hole"), "reject"),
    "beyond": (slicing([4], span(0, 5)), "slice-bounds"),
    "beyond and stepping": (slicing([4], span(0, 5, 2)), "slice-bounds"),
    "huge": (slicing([4], span(0, 2**63)), "slice-huge-bounds"),
    "huge step": (slicing([4], span(0, 4, 2**63)), "slice-huge-bounds"),
    "large step": (slicing([4], span(0, 4, 2**62)), "slice-step"),
    "at the end": (slicing([4], span(4, None)), "slice-empty-at-end"),
    "reversed": (slicing([4], span(3, 1)), "slice-reversed"),
    "from the end": (slicing([4], span(-2, None)), "slice-negative-bounds"),
    "before the first": (slicing([4], span(-9, None)), "slice-negative-beyond"),
    "range of nothing": (slicing([0, 3], span()), "slice-zero-dimension"),
    "ellipsis over nothing": (slicing([0, 3], "..."), "slice-zero-dimension"),
    "step": (slicing([4], span(0, 4, 2)), "slice-step"),
    "backwards": (slicing([4], span(None, None, -1)), "slice-negative-step"),
    "axis": (slicing([4], None), "slice-new-axis"),
    "list": (slicing([4], [1, 0]), "slice-list"),
    "empty list": (slicing([4, 2], []), "slice-list"),
    "truth": (slicing([4], True), "slice-bool"),
    "packed rows": (slicing([4, 4], span(1, 3), dtype="F4"), "accept"),
    "packed rows of half a byte, two of them": (slicing([6, 1], span(2, 4), dtype="F4"), "accept"),
    "packed inside a byte": (slicing([8], span(1, 8), dtype="F4"), "reject"),
    "packed one": (slicing([8], 4, dtype="F6_E2M3"), "reject"),
    "packed steps inside bytes": (slicing([8], span(0, 8, 2), dtype="F4"), "reject"),
    "packed rows with a step": (slicing([4, 4], span(0, 4, 2), dtype="F4"), "slice-packed"),
    "packed beyond": (slicing([8], span(4, 10), dtype="F4"), "slice-packed"),
}


A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def shard(name: str, *tensors: str, **more: Any) -> dict[str, Any]:
    rows = [{"name": tensor, "dtype": "F32", "shape": [2]} for tensor in tensors]
    return {"name": name, "tensors": rows, "metadata": None, "fault": None} | more


def loading(*pairs: list[Any], shards: list[Any] | None = None, **more: Any) -> Plan:
    shards = [shard(A, "a"), shard(B, "b")] if shards is None else shards
    plan = {"shards": shards, "map": [list(pair) for pair in pairs or (["a", A], ["b", B])], "others": []}
    return plan | {"metadata": '{"total_size":$n}', "text": "plain"} | more


DECOY = [shard(A, "a"), shard("x.safetensors", "b"), shard("../outside/x.safetensors", "b")]
INDEXES: dict[str, tuple[Plan, str]] = {
    "plain": (loading(), "accept"),
    "escapes": (loading(text="escapes"), "accept"),
    "a map in the metadata": (loading(text="map-in-metadata"), "accept"),
    "a stray shard": (loading(shards=[shard(A, "a"), shard(B, "b"), shard("c.safetensors", "b")]), "accept"),
    "a broken stray": (
        loading(shards=[shard(A, "a"), shard(B, "b"), shard("c.safetensors", "b", fault="hole")]),
        "accept",
    ),
    "missing shard": (loading(["a", A], ["b", "gone.safetensors"]), "reject"),
    "parent": (loading(["a", A], ["b", "../outside/x.safetensors"], shards=DECOY), "reject"),
    "windows": (loading(["a", A], ["b", "..\\outside\\x.safetensors"], shards=DECOY), "reject"),
    "suffix": (loading(["a", A], ["b", "x.bin"], shards=[shard(A, "a"), shard("x.bin", "b")]), "reject"),
    "number": (loading(["a", A], ["b", 7]), "reject"),
    "exchanged": (loading(["a", B], ["b", A]), "reject"),
    "one tensor twice": (loading(["a", A], ["a", A]), "reject"),
    "two maps": (loading(text="two-maps"), "reject"),
    "cut off": (loading(text="cut-off"), "reject"),
    "broken shard": (loading(shards=[shard(A, "a", fault="hole"), shard(B, "b")]), "reject"),
    "dot": (loading(["a", "./" + A], ["b", B]), "index-dot-slash"),
    "subfolder": (
        loading(["a", "sub/a.safetensors"], shards=[shard("sub/a.safetensors", "a")]),
        "index-subfolder",
    ),
    "surplus": (loading(shards=[shard(A, "a", "c"), shard(B, "b")]), "index-surplus-tensor"),
    "in two shards": (loading(shards=[shard(A, "a", "b"), shard(B, "b")]), "index-tensor-twice"),
    "mark": (loading(text="index-bom"), "index-bom"),
    "flat": (loading(text="index-flat-map"), "index-flat-map"),
    "member": (loading(text="index-unknown-members"), "index-unknown-members"),
    "other size": (loading(metadata='{"total_size":17}'), "index-total-size"),
    "size as text": (loading(metadata='{"total_size":"$n"}'), "index-total-size-type"),
    "no metadata": (loading(metadata=None), "index-metadata"),
    "metadata list": (loading(metadata="[]"), "index-metadata-type"),
    "empty map": (loading() | {"map": []}, "index-empty-map"),
    "second index": (loading(others=[["b.safetensors.index.json", "index"]]), "index-several"),
}  # fmt: skip


def writing(*tensors: Mapping[str, Any], size: int = 64, fill: str = "", **more: Any) -> Plan:
    plain = {"dtype": "F32", "shape": [2], "storage": "m", "offset": 0, "strides": None}
    plain |= {"byteorder": "little", "nbytes": None}
    rows = [{"name": name, **plain, **tensor} for name, tensor in zip("abcd", tensors, strict=False)]
    plan: Plan = {
        "storages": {"m": {"size": size, "fill": fill, "guard": False}},
        "tensors": rows,
        "metadata": None,
    }
    plan |= {"target": "new", "before": [], "properties": [], "file_size_limit": None}
    return plan | more


OTHER = {"offset": 8}
WRITES: dict[str, tuple[Plan, str]] = {
    "plain": (writing({}), "accept"),
    "two parts of one memory": (writing({}, OTHER), "accept"),
    "nothing twice": (writing({"shape": [0]}, {"shape": [0]}), "accept"),
    "strides of one element": (writing({"shape": [1, 2], "strides": [999, 4]}), "accept"),
    "metadata": (writing({}, metadata={"items": [["", "x"]]}), "accept"),
    "no tensors": (writing(metadata={"items": []}), "accept"),
    "saved again": (
        writing(target="input", before=[{"name": "a", "dtype": "U8", "shape": [3]}]),
        "accept",
    ),
    "reserved": (writing({"name": "__metadata__"}), "reject"),
    "lone surrogate": (writing({"name": "a\ud800"}), "reject"),
    "number as name": (writing({"name": 7}), "reject"),
    "one name twice": (writing({"name": "x"}, {"name": "x", "offset": 8}), "reject"),
    "metadata value": (writing({}, metadata={"items": [["k", 7]]}), "reject"),
    "metadata key": (writing({}, metadata={"items": [[None, "v"]]}), "reject"),
    "metadata list": (writing({}, metadata={"value": ["k"]}), "reject"),
    "other type": (writing({"dtype": "C128"}), "reject"),
    "short": (writing({"nbytes": 7}), "reject"),
    "part of a byte": (writing({"dtype": "F4", "shape": [3], "nbytes": 2}), "reject"),
    "wraps": (writing({"dtype": "F64", "shape": [2**61], "nbytes": 0}), "reject"),
    "disk full": (writing({"shape": [2048]}, size=8192, file_size_limit=4096), "reject"),
    "transposed": (writing({"shape": [3, 2], "strides": [4, 12]}), "non-contiguous"),
    "backwards": (writing({"offset": 4, "strides": [-4]}), "non-contiguous"),
    "big": (writing({"byteorder": "big"}), "big-endian"),
    "big and transposed": (
        writing({"byteorder": "big", "shape": [3, 2], "strides": [4, 12]}),
        "big-endian-view",
    ),
    "shared": (writing({}, {}), "shared-memory"),
    "missing folder": (writing({}, target="missing-folder"), "missing-folder"),
}


RULINGS = {"slice": SLICES, "index": INDEXES, "write": WRITES}


@pytest.mark.parametrize(
    ("step", "name"), [(step, name) for step, table in RULINGS.items() for name in table]
)
def test_the_outcome_or_the_choice_of_a_plan(step: str, name: str) -> None:
    plan, wanted = RULINGS[step][name]
    expectation = question(step, plan).expectation
    assert (expectation.get("choice") or expectation["outcome"]) == wanted


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
    options = question("index", INDEXES["surplus"][0]).expectation["options"]
    assert [t["name"] for t in options["ignore"]["content"]["tensors"]] == ["a", "b"]
    assert [t["name"] for t in options["load"]["content"]["tensors"]] == ["a", "b", "c"]
    assert options["reject"]["codes"] == ["IDX_TENSOR_UNINDEXED"]


def test_a_tensor_that_is_not_in_its_shard_is_a_recommendation() -> None:
    assert question("index", INDEXES["exchanged"][0]).expectation["level"] == "should"
    assert question("index", INDEXES["parent"][0]).expectation["level"] == "must"


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
        (slicing([-1]), "invalid shape"),
        (slicing([99_999]), "invalid shape"),
        (slicing([4], True, 0), "Boolean"),
        (slicing([4, 4], [0], 0), "cannot be combined with integers"),
        (slicing([4], 0, fault="unheard-of"), "unknown fault"),
        (slicing([4], 0, fault="unheard-of") | {"tensors": []}, "unknown fault"),
    ],
    "index": [
        (loading(text="unheard-of"), "unknown text"),
        (loading(shards=[shard(A), shard(A)]), "same path"),
        (loading(shards=[shard("../model/a.safetensors")]), "invalid shard path"),
        (loading(shards=[shard("a//b")]), "invalid shard path"),
        (loading(shards=[shard(A), shard(A + "/x")]), "the same path as a folder"),
        (loading(shards=[shard(A, "a", "a")]), "duplicate or reserved"),
        (loading(shards=[shard(A, "a", fault="unheard-of")]), "unknown fault"),
        (loading(shards=[shard(A, fault="name-twice")]), "nothing to which this fault applies"),
        (loading(metadata="{"), "invalid metadata"),
        (loading(others=[["x", "unheard-of"]]), "path or kind"),
    ],
    "write": [
        (writing({"offset": 60}), "does not fit in the memory"),
        (writing({"strides": [99]}), "does not fit in the memory"),
        (writing({"strides": [1, 2]}), "strides do not match the shape"),
        (writing({"storage": "other"}), "unknown storage"),
        (writing({"nbytes": 8}), "must differ"),
        (writing({"dtype": "F4", "strides": [1]}), "packed elements"),
        (writing({"dtype": "BOOL"}), "BOOL element"),
        (writing({}, metadata={"value": {}}), "no metadata"),
        (writing({}, metadata={"items": [["k", "v"], ["k", "w"]]}), "duplicate"),
        (writing({}, target="nowhere"), "unknown target"),
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
