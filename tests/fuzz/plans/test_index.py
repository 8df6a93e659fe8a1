"""What plans of indexes demand, held against what the rules and the cases of the corpus say."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_fuzz.plans.index import Indexes
from safetensors_fuzz.plans.question import PlanError
from safetensors_fuzz.plans.values import Plan

from .support import demanded

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
    "second index": (loading(others=[["b.safetensors.index.json", "index"]]), "index-several"),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXES)
def test_indexes(name: str) -> None:
    plan, wanted = INDEXES[name]
    assert demanded(Indexes().question(plan)) == wanted


def test_an_empty_map_is_a_choice() -> None:
    assert demanded(Indexes().question(loading() | {"map": []})) == "index-empty-map"


@pytest.mark.parametrize("value", [{"file": A}, [A]])
def test_plans_that_map_a_tensor_to_no_string_are_made_smaller(value: Any) -> None:
    smaller = list(Indexes().smaller(loading(["a", A], ["b", value])))
    assert loading(["b", value], shards=[shard(B, "b")]) in smaller


def test_a_surplus_tensor_is_loaded_or_not() -> None:
    options = Indexes().question(INDEXES["surplus"][0]).expectation["options"]
    assert [t["name"] for t in options["ignore"]["content"]["tensors"]] == ["a", "b"]
    assert [t["name"] for t in options["load"]["content"]["tensors"]] == ["a", "b", "c"]
    assert options["reject"]["codes"] == ["IDX_TENSOR_UNINDEXED"]


def test_a_tensor_that_is_not_in_its_shard_is_a_recommendation() -> None:
    assert Indexes().question(INDEXES["exchanged"][0]).expectation["level"] == "should"
    assert Indexes().question(INDEXES["parent"][0]).expectation["level"] == "must"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (loading(text="unheard-of"), "unknown text"),
        (loading(shards=[shard(A), shard(A)]), "same path"),
        (loading(shards=[shard("../model/a.safetensors")]), "invalid shard path"),
        (loading(shards=[shard("a//b")]), "invalid shard path"),
        (loading(shards=[shard(A), shard(A + "/x")]), "the same path as a folder"),
        (loading(shards=[shard(A, "a", "a")]), "duplicate or reserved"),
        (loading(shards=[shard(A, "a", fault="unheard-of")]), "unknown fault"),
        (loading(shards=[shard(A, fault="name-twice")]), "nothing that this fault could break"),
        (loading(metadata="{"), "invalid metadata"),
        (loading(others=[["x", "unheard-of"]]), "path or kind"),
    ],
)
def test_indexes_that_make_no_sense(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Indexes().question(plan)
