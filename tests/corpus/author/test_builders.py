"""The builders: what they promise to authors, and what they refuse.

``stc corpus build --check`` compares everything that they build for cases, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_corpus.author.actions import SliceBuilder, index_items, index_json, numbered, numbers
from safetensors_corpus.author.file import FileBuilder, pattern, size_of
from safetensors_corpus.author.index import IndexBuilder
from safetensors_corpus.author.write import WriteBuilder, covered

from ...reference import naive


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@given(
    st.dictionaries(st.text(max_size=4).filter(lambda n: n != "__metadata__"), st.integers(0, 5), max_size=4),
    st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
)
def test_what_is_told_without_breaking_anything_is_valid_and_is_the_content(
    sizes: dict[str, int], metadata: dict[str, str] | None
) -> None:
    f = FileBuilder()
    for name, size in sizes.items():
        f.tensor(name, "I16", [size])
    if metadata is not None:
        f.metadata(metadata)
    data = f.render()
    buffer = data[8 + int.from_bytes(data[:8], "little") :]
    rows = []
    for name, (dtype, shape, begin, end) in naive.read(data).tensors.items():
        row = {"name": name, "dtype": dtype, "shape": list(shape), "nbytes": end - begin}
        rows.append({**row, "sha256": digest(buffer[begin:end])})
    assert f.content() == {"tensors": rows, "metadata": metadata}


def test_content_comes_from_what_was_told_even_when_the_file_says_otherwise() -> None:
    f = FileBuilder()
    f.tensor("w", "U8", [3], b"abc", begin=1, end=2, fields={"dtype": '"F64"', "shape": "[9]"})
    header = json.loads(f.render()[8:-3])
    assert header["w"] == {"dtype": "F64", "shape": [9], "data_offsets": [1, 2]}
    assert f.content()["tensors"] == [
        {"name": "w", "dtype": "U8", "shape": [3], "nbytes": 3, "sha256": digest(b"abc")}
    ]


def test_options_of_a_choice_see_their_own_tensors_bytes_and_metadata() -> None:
    f = FileBuilder()
    f.tensor("w", "U8", [1], b"a", seen_by=["first-wins"])
    f.tensor("w", "U8", [1], b"b", seen_by=["last-wins"])
    f.tensor("x", "U8", [1], b"c", views={"last-wins": b"C"})
    f.metadata({"k": "1"}, views={"last-wins": {"k": "2"}})
    for option, data, value in (("first-wins", "ac", "1"), ("last-wins", "bC", "2"), (None, "abc", "1")):
        content = f.content(option)
        assert [t["sha256"] for t in content["tensors"]] == [digest(byte.encode()) for byte in data]
        assert content["metadata"] == {"k": value}


@pytest.mark.parametrize("dtype", sorted(naive.BITS))
def test_sizes_are_counted_in_bits(dtype: str) -> None:
    assert size_of(dtype, [2, 4]) == naive.BITS[dtype]
    assert size_of(dtype, [0, 3]) == 0
    if naive.BITS[dtype] < 8:
        with pytest.raises(ValueError, match="not a whole number of bytes"):
            size_of(dtype, [1])


@given(st.text(max_size=8), st.integers(0, 300))
def test_patterns_are_repeatable_and_never_zero_or_special(name: str, size: int) -> None:
    data = pattern(name, size)
    assert len(data) == size
    assert data == pattern(name, size + 10)[:size]
    assert set(data) <= set(range(1, 61))


def test_elements_are_finite_in_every_float_dtype() -> None:
    for code, width in (("<f2", 2), ("<f4", 4), ("<f8", 8)):
        assert np.isfinite(np.frombuffer(pattern("w", 48) + numbered(0, 4000 * width, width), code)).all()


def test_tensors_and_elements_can_be_told_apart_by_their_bytes() -> None:
    names = ("weight", "bias", "a", "b", "layer.7.weight", "layer.10.weight", "w", "w\0")
    assert len({pattern(name, 8) for name in names}) == len(names)
    for width in (2, 4, 8):
        data = numbered(0, 100 * width, width) + numbered(100 * width, 100 * width, width)
        assert len({data[at : at + width] for at in range(0, len(data), width)}) == 200
    f = IndexBuilder()
    shards = ("a.safetensors", "../outside/x.safetensors", "x.safetensors", "sub/x.safetensors")
    assert len({f.shard(shard, "a").tensor_named("a").data for shard in shards}) == len(shards)


def test_large_files_of_a_folder_are_refused() -> None:
    f = IndexBuilder()
    f.file("x", bytes(65537))
    f.index({})
    with pytest.raises(ValueError, match="too large to store"):
        f.stored("index/x")


def asked(*index: Any) -> dict[str, Any]:
    f = SliceBuilder()
    numbers(f)
    f.ask("t", *index)
    row: dict[str, Any] = f.content()["tensors"][0]
    return row


@pytest.mark.parametrize("index", [(4,), (0, 0, 0), ("x",), (1.0,), (slice(0, 4, 0),)])
def test_what_numpy_refuses_has_no_content(index: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="NumPy rejects"):
        asked(*index)


def test_a_slice_case_must_ask_and_answer() -> None:
    f = SliceBuilder()
    f.tensor("t", "F4", [2, 2])
    for make in (f.content, f.action):
        with pytest.raises(ValueError, match="does not request a slice"):
            make()
    f.ask("t", 1)
    with pytest.raises(ValueError, match="NumPy does not support F4"):
        f.content()
    f.expect([2], f.tensor_named("t").data[1:])
    f.expect([1, 2, 2], bytes(2), option="mask")
    assert [f.content(option)["tensors"][0]["nbytes"] for option in ("integer", "mask")] == [1, 2]


INDICES: list[tuple[Any, ...]] = [
    (),
    (0, -1, 2**64),
    (..., slice(None)),
    (slice(1, None, -2),),
    (True, None, 1.5, "a", [0, 1]),
]


@pytest.mark.parametrize("index", INDICES)
def test_the_question_survives_the_manifest(index: tuple[Any, ...]) -> None:
    again = index_items(json.loads(json.dumps([index_json(item) for item in index])))
    assert again == index
    assert [type(item) for item in again] == [type(item) for item in index]


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
    assert [row["sha256"] for row in f.content()["tensors"]] == [digest(view.tobytes())]
    assert len(set(covered(f.action()["tensors"][0], len(memory)))) == view.nbytes


def test_big_endian_elements_are_turned_around_and_complex_ones_in_halves() -> None:
    f = WriteBuilder()
    f.tensor("t", "U16", [2], b"\1\2\3\4", byteorder="big")
    f.tensor("u", "C64", [1], struct.pack(">2f", 1.0, 2.0), byteorder="big")
    expected = [digest(b"\2\1\4\3"), digest(struct.pack("<2f", 1.0, 2.0))]
    assert [row["sha256"] for row in f.content()["tensors"]] == expected


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


def test_unknown_element_types_and_given_sizes_cover_memory() -> None:
    given_row = {"dtype": "C128", "shape": [2], "strides": None, "offset": 4}
    assert list(covered(given_row, 3)) == [0, 1, 2]
    assert list(covered({**given_row, "dtype": "U8"}, 9)) == [4, 5]
    assert list(covered({**given_row, "dtype": "U8", "nbytes": 3}, 9)) == [4, 5, 6]
