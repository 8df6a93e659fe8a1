"""Tensor entries and the metadata map: overflows by order, and several faults in one entry.

The corpus, with each profile, and the naive reader show which single entries are valid.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import explain

from ..strategies import FEWER
from ..support import ABCD, W, entry, make

U64 = 2**64 - 1


@FEWER
@given(st.permutations([0, U64, 2, 1]))
def test_overflow_beside_a_zero_depends_on_the_order_only_under_official(shape: list[int]) -> None:
    """SHP-06 demands one verdict for any order, but the official library multiplies from left to right."""
    product, overflow = 1, False
    for dim in shape:
        product *= dim
        overflow |= product > U64
    data = make(f'{{"w":{entry("U8", json.dumps(shape), "[0,0]")}}}')
    assert [(f.code, f.rule) for f in explain(data).faults] == [("SHP_OVERFLOW", "SHP-06")]
    explanation = explain(data, "official")
    assert explanation.valid is not overflow
    assert [f.rule for f in explanation.tolerated] == ([] if overflow else ["SHP-06"])


@pytest.mark.parametrize(
    ("members", "codes"),
    [
        ('"w":{"dtype":8,"dtype":"U8","shape":[-1,"2"],"data_offsets":[0,4.0],"x":0}', {
            "DTY_BAD_TYPE w.dtype", "ENT_BAD_INTEGER w.data_offsets.1", "ENT_BAD_INTEGER w.shape.0",
            "ENT_UNKNOWN_FIELD w.x", "HDR_DUP_KEY w.dtype", "SHP_BAD_TYPE w.shape.1",
        }),
        ('"w":{"dtype":"U8","shape":[4],"offsets":[0,4]}', {
            "ENT_MISSING_FIELD w", "ENT_UNKNOWN_FIELD w.offsets",
        }),
        (f'"__metadata__":{W}', {
            "MET_VALUE_NOT_STRING __metadata__.shape", "MET_VALUE_NOT_STRING __metadata__.data_offsets",
            "OFF_TRAILING ",
        }),
        (f'"__metadata__":[1],"w":{entry("F33")}', {"MET_NOT_MAP __metadata__", "DTY_UNKNOWN w.dtype"}),
        (f'"__metadata__":{{"k":1,"k":"v"}},"w":{W}', {
            "MET_VALUE_NOT_STRING __metadata__.k", "HDR_DUP_KEY __metadata__.k",
        }),
        (f'"w":{W},"w":{entry(offsets="[4,8]")}', {"HDR_DUP_KEY w", "OFF_OUT_OF_BOUNDS w.data_offsets"}),
        (f'"w":{entry(offsets="[4,0]")},"w":{W}', {"HDR_DUP_KEY w", "OFF_REVERSED w.data_offsets"}),
        # The gap may belong to what is no entry, so it is not called a hole.
        (f'"a":null,"b":{entry("U8", "[2]", "[2,4]")}', {"ENT_NOT_OBJECT a"}),
    ],
)  # fmt: skip
def test_all_faults_of_a_header_are_collected(members: str, codes: set[str]) -> None:
    faults = explain(make("{" + members + "}", ABCD)).faults
    assert {f"{f.code} {'.'.join(map(str, f.path or ()))}" for f in faults} == codes


def test_every_missing_field_is_named() -> None:
    messages = [f.message for f in explain(make('{"w":{}}')).faults]
    assert messages == [f'tensor "w" has no {field}' for field in ("dtype", "shape", "data_offsets")]
