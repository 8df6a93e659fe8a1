"""Tensor entries and the metadata map: what comes back unchanged, and several faults in one entry.

The corpus, with each profile, and the naive reader show which single entries are valid.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import explain, read_header

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
    "shape",
    ["[4294967296,4294967296]", "[4194305,4194305,211106198978564]", f"[{2**63 + 2},2]", f"[{2**62}]"],
)
@pytest.mark.parametrize("size", [0, 4, 16])
def test_a_product_that_wraps_is_no_size(shape: str, size: int) -> None:
    """Audit finding TOB-SFTN-2: arithmetic in 64 bits gives these shapes a small size."""
    data = make(f'{{"w":{entry("F32", shape, f"[0,{size}]")}}}', bytes(size))
    assert [f.code for f in explain(data).faults] == ["SHP_OVERFLOW"]


def test_all_faults_of_one_entry_are_collected() -> None:
    body = '{"dtype":8,"dtype":"U8","shape":[-1,"2"],"data_offsets":[0,4.0],"x":0}'
    found = sorted((f.code, f.path) for f in explain(make(f'{{"w":{body}}}', ABCD)).faults)
    assert found == [
        ("DTY_BAD_TYPE", ("w", "dtype")),
        ("ENT_BAD_INTEGER", ("w", "data_offsets", 1)),
        ("ENT_BAD_INTEGER", ("w", "shape", 0)),
        ("ENT_UNKNOWN_FIELD", ("w", "x")),
        ("HDR_DUP_KEY", ("w", "dtype")),
        ("SHP_BAD_TYPE", ("w", "shape", 1)),
    ]


def test_every_missing_field_is_named() -> None:
    faults = explain(make('{"w":{}}')).faults
    assert [f.code for f in faults] == ["ENT_MISSING_FIELD"] * 3
    assert [
        next(word for word in ("dtype", "shape", "data_offsets") if word in f.message) for f in faults
    ] == [
        "dtype",
        "shape",
        "data_offsets",
    ]


def test_the_old_field_name_offsets_does_not_stand_in() -> None:
    data = make('{"w":{"dtype":"U8","shape":[4],"offsets":[0,4]}}', ABCD)
    assert {f.code for f in explain(data).faults} == {"ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"}


@pytest.mark.parametrize(
    "name",
    [
        "", "\0", "a\0b", "\n", "\x7f", "\u202e", "\ufffe", "\U0010ffff", "../../etc/passwd", "%s%n",
        "__METADATA__", "n" * 65536, "__metadata___", "_metadata__", "e\u0301", "dtype",
    ],
)  # fmt: skip
def test_names_hold_any_text_and_come_back_unchanged(name: str) -> None:
    for ascii_only in (True, False):
        key = json.dumps(name, ensure_ascii=ascii_only)
        assert list(read_header(make(f"{{{key}:{W}}}", ABCD)).tensors) == [name]


@pytest.mark.parametrize("key", ['"__metadata__"', r'"\u005f_metadata__"', r'"__met\u0061data\u005F_"'])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_metadata_stands_anywhere_and_under_any_spelling(key: str, place: int) -> None:
    members = [f'"a":{W}', f'"b":{entry("U8", "[0]", "[4,4]")}']
    members.insert(place, key + ':{"k":"v"}')
    header = read_header(make("{" + ",".join(members) + "}", ABCD))
    assert header.metadata == {"k": "v"}
    assert list(header.tensors) == ["a", "b"]


def test_a_tensor_entry_under_the_reserved_name_is_refused_for_each_value_that_is_no_string() -> None:
    faults = explain(make(f'{{"__metadata__":{W}}}', ABCD)).faults
    assert {(f.code, f.path) for f in faults if f.code.startswith("MET")} == {
        ("MET_VALUE_NOT_STRING", ("__metadata__", "shape")),
        ("MET_VALUE_NOT_STRING", ("__metadata__", "data_offsets")),
    }


def test_a_broken_metadata_map_does_not_hide_faults_of_tensors() -> None:
    data = make(f'{{"__metadata__":[1],"w":{entry("F33")}}}', ABCD)
    assert {f.code for f in explain(data).faults} == {"MET_NOT_MAP", "DTY_UNKNOWN"}
