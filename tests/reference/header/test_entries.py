"""Tensor entries and the metadata map: what must be accepted, and what several faults in one entry give."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import explain, read_header

from ..naive import BITS
from ..strategies import FEWER
from ..support import ABCD, W, entry, make

U64 = 2**64 - 1


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("dtype", "shape", "data_offsets"))), ids="-".join
)
def test_fields_stand_in_any_order(order: tuple[str, ...]) -> None:
    texts = {"dtype": '"U8"', "shape": "[2,2]", "data_offsets": "[0,4]"}
    body = ",".join(f'"{field}":{texts[field]}' for field in order)
    info = read_header(make(f'{{"w":{{{body}}}}}', ABCD)).tensors["w"]
    assert (info.dtype, info.shape, info.begin, info.end) == ("U8", (2, 2), 0, 4)


def test_escaped_field_names_and_dtypes_mean_the_same() -> None:
    body = r'{"\u0064type":"\u00558","sh\u0061pe":[4],"data\u005foffsets":[0,4]}'
    assert read_header(make(f'{{"w":{body}}}', ABCD)).tensors["w"].dtype == "U8"


@pytest.mark.parametrize("dtype", sorted(BITS))
@pytest.mark.parametrize("elements", [0, 8, 16])
def test_a_range_of_exactly_the_right_size_is_the_only_one_accepted(dtype: str, elements: int) -> None:
    size = elements * BITS[dtype] // 8
    for given_size in {size, size + 1, max(size - 1, 0)}:
        data = make(f'{{"w":{entry(dtype, f"[{elements}]", f"[0,{given_size}]")}}}', bytes(given_size))
        codes = [f.code for f in explain(data).faults]
        assert codes == ([] if given_size == size else ["OFF_SIZE_MISMATCH"])


@FEWER
@given(st.sampled_from(sorted(BITS)), st.lists(st.integers(0, 5), max_size=4))
def test_the_size_is_the_product_of_the_dimensions_times_the_width(dtype: str, shape: list[int]) -> None:
    count = 1
    for dim in shape:
        count *= dim
    bits = count * BITS[dtype]
    size = bits // 8
    data = make(f'{{"w":{entry(dtype, json.dumps(shape), f"[0,{size}]")}}}', bytes(size))
    assert [f.code for f in explain(data).faults] == ([] if bits % 8 == 0 else ["DTY_SUBBYTE"])


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("U8", (), 1),
        ("F64", (), 8),
        ("U8", (0,), 0),
        ("U8", (0, 5), 0),
        ("U8", (5, 0, 3), 0),
        ("F4", (0,), 0),
        ("F4", (2, 1), 1),
        ("F4", (2, 3), 3),
        ("F4", (2, 4), 4),
        ("F6_E2M3", (4,), 3),
        ("F6_E3M2", (2, 2), 3),
        ("U8", (1, 1, 1, 4), 4),
        ("U8", (1,) * 1000, 1),
        ("U8", (0, U64), 0),
        ("U8", (U64, 0), 0),
        ("U8", (0, 2**32, 2**31), 0),
    ],
)
def test_shapes_at_the_edges_are_valid_and_kept(dtype: str, shape: tuple[int, ...], size: int) -> None:
    data = make(f'{{"w":{entry(dtype, json.dumps(shape), f"[0,{size}]")}}}', bytes(size))
    assert read_header(data).tensors["w"].shape == shape


@FEWER
@given(st.permutations([0, U64, 2, 1]))
def test_overflow_beside_a_zero_does_not_depend_on_the_order_under_hardened(shape: list[int]) -> None:
    """Rule SHP-06 asks for one verdict whatever the order of the dimensions."""
    data = make(f'{{"w":{entry("U8", json.dumps(shape), "[0,0]")}}}')
    assert [(f.code, f.rule) for f in explain(data).faults] == [("SHP_OVERFLOW", "SHP-06")]


@FEWER
@given(st.permutations([0, U64, 2, 1]))
def test_overflow_beside_a_zero_depends_on_its_place_under_official(shape: list[int]) -> None:
    """The official library multiplies from left to right."""
    product, overflow = 1, False
    for dim in shape:
        product *= dim
        overflow |= product > U64
    data = make(f'{{"w":{entry("U8", json.dumps(shape), "[0,0]")}}}')
    explanation = explain(data, "official")
    assert explanation.valid is not overflow
    assert [f.rule for f in explanation.tolerated] == ([] if overflow else ["SHP-06"])


@pytest.mark.parametrize(("count", "code"), [(2**61 - 1, "OFF_SIZE_MISMATCH"), (2**61, "SHP_OVERFLOW")])
def test_the_size_in_bits_must_fit_64_bits(count: int, code: str) -> None:
    """Rule SHP-09: 2^61 bytes are 2^64 bits."""
    data = make(f'{{"w":{entry("U8", f"[{count}]")}}}', ABCD)
    assert [f.code for f in explain(data).faults] == [code]


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


def test_names_that_look_alike_stay_apart() -> None:
    names = ["a", "A", "a\0", "é", "e\u0301", " a", "a "]
    empty = entry("U8", "[0]", "[0,0]")
    header = "{" + ",".join(f"{json.dumps(name)}:{empty}" for name in names) + "}"
    assert list(read_header(make(header)).tensors) == names


@FEWER
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4), st.booleans())
def test_metadata_comes_back_unchanged(metadata: dict[str, str], ascii_only: bool) -> None:
    text = json.dumps({"__metadata__": metadata}, ensure_ascii=ascii_only)
    assert read_header(make(text)).metadata == metadata


@pytest.mark.parametrize("key", ['"__metadata__"', r'"\u005f_metadata__"', r'"__met\u0061data\u005F_"'])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_metadata_stands_anywhere_and_under_any_spelling(key: str, place: int) -> None:
    members = [f'"a":{W}', f'"b":{entry("U8", "[0]", "[4,4]")}']
    members.insert(place, key + ':{"k":"v"}')
    header = read_header(make("{" + ",".join(members) + "}", ABCD))
    assert header.metadata == {"k": "v"}
    assert list(header.tensors) == ["a", "b"]


def test_a_map_of_strings_that_looks_like_a_tensor_is_metadata() -> None:
    header = read_header(make('{"__metadata__":{"dtype":"U8","shape":"[4]","data_offsets":"[0,4]"}}'))
    assert header.tensors == {}
    assert header.metadata == {"dtype": "U8", "shape": "[4]", "data_offsets": "[0,4]"}


def test_a_tensor_entry_under_the_reserved_name_is_refused_for_each_value_that_is_no_string() -> None:
    faults = explain(make(f'{{"__metadata__":{W}}}', ABCD)).faults
    assert {(f.code, f.path) for f in faults if f.code.startswith("MET")} == {
        ("MET_VALUE_NOT_STRING", ("__metadata__", "shape")),
        ("MET_VALUE_NOT_STRING", ("__metadata__", "data_offsets")),
    }


def test_a_broken_metadata_map_does_not_hide_faults_of_tensors() -> None:
    data = make(f'{{"__metadata__":[1],"w":{entry("F33")}}}', ABCD)
    assert {f.code for f in explain(data).faults} == {"MET_NOT_MAP", "DTY_UNKNOWN"}
