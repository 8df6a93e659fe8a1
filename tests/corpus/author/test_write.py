"""The builder of write cases: what it hands over, and what it says the file must hold."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_corpus.author.write import SPELLED, Text, WriteBuilder, covered


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def only(f: WriteBuilder, option: str | None = None) -> dict[str, Any]:
    (row,) = f.content(option)["tensors"]
    assert isinstance(row, dict)
    return row


def test_a_tensor_gets_a_storage_of_its_own() -> None:
    f = WriteBuilder()
    f.tensor("a", "U8", [3], b"abc")
    f.tensor("a", "U8", [3], b"def")
    action = f.action()
    assert [t["storage"] for t in action["tensors"]] == ["a", "a'"]
    assert "nbytes" not in action["tensors"][0]
    assert [r["sha256"] for r in f.content()["tensors"]] == [digest(b"abc"), digest(b"def")]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.sampled_from(["U8", "I16", "F32", "F64"]),
    st.permutations(range(3)),
    st.lists(st.sampled_from([1, -1, 2]), min_size=3, max_size=3),
)
def test_views_are_gathered_as_numpy_does(
    shape: list[int], dtype: str, axes: list[int], steps: list[int]
) -> None:
    width = {"U8": 1, "I16": 2, "F32": 4, "F64": 8}[dtype]
    memory = bytes(i % 251 for i in range(width * int(np.prod(shape, dtype=int))))
    whole = np.frombuffer(memory, f"V{width}").reshape(shape)
    view = whole.transpose([a for a in axes if a < len(shape)])
    view = view[tuple(slice(None, None, step) for step in steps[: len(shape)])]
    if not view.size:
        return
    f = WriteBuilder()
    f.storage("m", memory)
    offset = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    f.tensor("t", dtype, list(view.shape), storage="m", offset=offset, strides=list(view.strides))
    assert only(f)["sha256"] == digest(view.tobytes())
    places = set(covered(f.action()["tensors"][0], len(memory)))
    assert len(places) == view.nbytes


def test_big_endian_elements_are_turned_around_and_complex_ones_in_halves() -> None:
    f = WriteBuilder()
    f.tensor("t", "U16", [2], b"\1\2\3\4", byteorder="big")
    assert only(f)["sha256"] == digest(b"\2\1\4\3")
    f = WriteBuilder()
    f.tensor("t", "C64", [1], struct.pack(">2f", 1.0, 2.0), byteorder="big")
    assert only(f)["sha256"] == digest(struct.pack("<2f", 1.0, 2.0))


@pytest.mark.parametrize(
    "view",
    [
        {"dtype": "F32", "shape": [2], "offset": 4},
        {"dtype": "F32", "shape": [2], "strides": [8]},
        {"dtype": "F32", "shape": [2], "strides": [-4]},
        {"dtype": "F4", "shape": [4], "strides": [1]},
    ],
)
def test_views_that_reach_outside_and_packed_views_are_mistakes(view: dict[str, Any]) -> None:
    f = WriteBuilder()
    f.tensor("t", **view, storage="m")
    f.storage("m", bytes(8))
    with pytest.raises(ValueError, match=r"not completely inside its storage|smaller than a byte"):
        f.content()


def test_texts_that_json_cannot_carry_are_spelled_in_parts() -> None:
    f = WriteBuilder()
    for name in (
        "plain é",
        "a\ud800",
        "n" * (SPELLED + 1),
        7,
        Text(({"repeat": {"text": "x"}, "count": 9},)),
    ):
        f.tensor(name, "U8", [1], b"a")
    f.metadata({"key": "\udc00", "k\ud800": "v"})
    action = f.action()
    assert [t["name"] for t in action["tensors"]] == [
        "plain é",
        {"parts": [{"hex": "61eda080"}]},
        {"parts": [{"repeat": {"text": "n"}, "count": SPELLED + 1}]},
        7,
        {"parts": [{"repeat": {"text": "x"}, "count": 9}]},
    ]
    assert action["metadata"] == {
        "items": [["key", {"parts": [{"hex": "edb080"}]}], [{"parts": [{"hex": "6beda080"}]}, "v"]]
    }


def test_metadata_with_plain_keys_stays_a_map_and_other_types_stay_what_they_are() -> None:
    f = WriteBuilder()
    f.metadata({"key": 7, "other": "\ud800"})
    assert f.action()["metadata"] == {"key": 7, "other": {"parts": [{"hex": "eda080"}]}}
    f.metadata({7: "text"})
    assert f.action()["metadata"] == {"items": [[7, "text"]]}
    f.metadata(["a"])
    assert f.action()["metadata"] == ["a"]


def test_what_the_file_holds_can_differ_from_option_to_option() -> None:
    f = WriteBuilder()
    f.tensor("a", "U8", [1], b"a")
    f.tensor("b", "U8", [1], b"b")
    f.expect("a", metadata={"b": "a"}, option="noted")
    assert [r["name"] for r in f.content("copy")["tensors"]] == ["a", "b"]
    noted = f.content("noted")
    assert [r["name"] for r in noted["tensors"]] == ["a"]
    assert noted["metadata"] == {"b": "a"}
    f.count_only = True
    assert f.content() == {"tensor_count": 2}


def test_the_old_file_is_stored_for_targets_that_have_one() -> None:
    f = WriteBuilder()
    f.before.tensor("old", "U8", [1], b"x")
    assert f.stored("writer/x") == (None, {})
    f.target = "file"
    stored, files = f.stored("writer/x")
    assert stored is not None
    assert stored["file"] == "files/writer/x.safetensors"
    assert list(files) == [stored["file"]]
    f.target = "input"
    assert [r["name"] for r in f.content()["tensors"]] == ["old"]


def test_unknown_element_types_and_given_sizes_cover_memory() -> None:
    given_row = {"dtype": "C128", "shape": [2], "strides": None, "offset": 4}
    assert list(covered(given_row, 3)) == [0, 1, 2]
    assert list(covered({**given_row, "dtype": "U8"}, 9)) == [4, 5]
    assert list(covered({**given_row, "dtype": "U8", "nbytes": 3}, 9)) == [4, 5, 6]
