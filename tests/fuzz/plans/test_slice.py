"""What plans of slices demand, held against what the rules and the cases of the corpus say."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus.author.file import tensor_row
from safetensors_fuzz.plans.question import PlanError
from safetensors_fuzz.plans.slice import Slices
from safetensors_fuzz.plans.values import Plan

from .support import demanded


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


@pytest.mark.parametrize("name", SLICES)
def test_slices(name: str) -> None:
    plan, wanted = SLICES[name]
    assert demanded(Slices().question(plan)) == wanted


def test_the_content_of_a_slice_is_what_numpy_picks() -> None:
    question = Slices().question(slicing([2, 3], 1, span(1, None), dtype="U8"))
    row = question.expectation["content"]["tensors"][0]
    assert row == tensor_row("t", "U8", [2], bytes([5, 6]))
    packed = Slices().question(slicing([2, 4], 1, dtype="F4"))
    assert packed.expectation["content"]["tensors"][0] == tensor_row("t", "F4", [4], bytes([3, 4]))


def test_a_truth_value_has_three_meanings() -> None:
    options = Slices().question(slicing([2, 2], True, dtype="U8")).expectation["options"]
    assert options["integer"]["content"]["tensors"][0] == tensor_row("t", "U8", [2], bytes([3, 4]))
    assert options["mask"]["content"]["tensors"][0]["shape"] == [1, 2, 2]
    outside = Slices().question(slicing([1], True)).expectation["options"]
    assert outside["integer"]["outcome"] == "reject"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (slicing([8], span(1, 1), dtype="F4"), "inside a byte"),
        (slicing([8], span(None, None, -1), dtype="F4"), "reordered packed"),
        (slicing([3], dtype="F4"), "not a whole number of bytes"),
        (slicing([-1]), "invalid shape"),
        (slicing([99_999]), "invalid shape"),
        (slicing([4], True, 0), "Boolean"),
        (slicing([4, 4], [0], 0), "together with integers"),
        (slicing([4], 0, fault="unheard-of"), "unknown fault"),
        (slicing([4], 0, fault="unheard-of") | {"tensors": []}, "unknown fault"),
    ],
)
def test_slices_that_no_rule_decides(plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Slices().question(plan)
