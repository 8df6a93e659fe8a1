"""What plans of writes demand, held against what the rules and the cases of the corpus say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from safetensors_fuzz.plans.question import PlanError
from safetensors_fuzz.plans.values import Plan
from safetensors_fuzz.plans.write import Writes

from .support import demanded


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


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    plan, wanted = WRITES[name]
    assert demanded(Writes().question(plan)) == wanted


def test_of_shared_memory_the_first_that_holds_all_is_kept() -> None:
    plan = writing({"name": "z", "shape": [4]}, {"name": "b", "shape": [4]}, {"name": "a", "shape": [2]})
    options = Writes().question(plan).expectation["options"]
    assert [t["name"] for t in options["copy"]["content"]["tensors"]] == ["z", "b", "a"]
    assert [t["name"] for t in options["once"]["content"]["tensors"]] == ["b"]
    assert options["noted"]["content"]["metadata"] == {"z": "b", "a": "b"}
    halves = writing({"shape": [3]}, {"shape": [3], "offset": 4})
    assert Writes().question(halves).expectation["options"]["once"]["outcome"] == "reject"


def test_recommendations_are_none_of_a_must() -> None:
    question = Writes().question(writing({}, properties=["aligned"]))
    assert question.expectation["level"] == "should"
    assert question.rules == ("WRT-01", "WRT-04")
    with pytest.raises(PlanError, match="together with a choice"):
        Writes().question(writing({"byteorder": "big"}, properties=["aligned"]))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (writing({"offset": 60}), "exceeds the memory"),
        (writing({"strides": [99]}), "exceeds the memory"),
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
        (writing({}, file_size_limit=4096), "may fit"),
        (writing({}, {}, target="missing-folder"), "several choices"),
    ],
)
def test_writes_that_make_no_sense(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Writes().question(plan)
