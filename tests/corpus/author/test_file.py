"""The builder writes what it is told, and remembers it without reading it back."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_corpus.author.file import FileBuilder, json_text, pattern, size_of

from ...reference import naive


def parts(data: bytes) -> tuple[bytes, bytes]:
    """Header and data of a file."""
    (length,) = struct.unpack("<Q", data[:8])
    return data[8 : 8 + length], data[8 + length :]


def members(f: FileBuilder) -> Any:
    return json.loads(parts(f.render())[0])


def test_nothing_told_is_the_empty_container() -> None:
    assert FileBuilder().render() == struct.pack("<Q", 8) + b"{}      "
    assert FileBuilder().content() == {"tensors": [], "metadata": None}


def test_tensors_are_laid_out_one_behind_the_other() -> None:
    f = FileBuilder()
    f.tensor("a", "U8", [3], b"abc")
    assert f.position == 3
    f.tensor("b", "F32", [1], b"defg")
    header, data = parts(f.render())
    assert data == b"abcdefg"
    assert json.loads(header) == {
        "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [3, 7]},
    }
    assert len(header) % 8 == 0


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
    seen = naive.read(data)
    _, buffer = parts(data)
    assert f.content() == {
        "tensors": [
            {
                "name": name,
                "dtype": dtype,
                "shape": list(shape),
                "nbytes": end - begin,
                "sha256": hashlib.sha256(buffer[begin:end]).hexdigest(),
            }
            for name, (dtype, shape, begin, end) in seen.tensors.items()
        ],
        "metadata": metadata,
    }


def test_content_comes_from_what_was_told_even_when_the_file_says_otherwise() -> None:
    f = FileBuilder()
    f.tensor("w", "U8", [3], b"abc", begin=1, end=2, fields={"dtype": '"F64"', "shape": "[9]"})
    assert members(f)["w"] == {"dtype": "F64", "shape": [9], "data_offsets": [1, 2]}
    assert f.content()["tensors"] == [
        {"name": "w", "dtype": "U8", "shape": [3], "nbytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}
    ]


def header_of(f: FileBuilder) -> bytes:
    return parts(f.render())[0].rstrip(b" ")


def test_each_part_of_an_entry_can_be_replaced_alone() -> None:
    f = FileBuilder()
    f.tensor(
        "w",
        "U8",
        [1],
        b"a",
        key=r'"\u0077"',
        fields={"shape": None, "x": "1e0"},
        order=["data_offsets", "dtype"],
    )
    assert header_of(f) == rb'{"\u0077":{"data_offsets":[0,1],"dtype":"U8","x":1e0}}'
    f = FileBuilder()
    f.tensor("w", "U8", [1], b"a", value="null")
    assert header_of(f) == b'{"w":null}'


def test_members_stand_where_they_are_put() -> None:
    f = FileBuilder()
    f.member('"b"', "2")
    f.member(b'"\xff"', b"3")
    f.metadata({"k": "v"}, at=0)
    assert header_of(f) == b'{"__metadata__":{"k":"v"},"b":2,"\xff":3}'


def test_the_frame_can_be_broken_in_each_place() -> None:
    f = FileBuilder(before=b" ", padding=b"\n", length=7, prefix=b"<", trailer=b">", separator=" , ")
    f.member('"a"', "1")
    f.member('"b"', "2")
    f.gap(2, 0xAA)
    assert f.render() == b"<" + struct.pack("<Q", 7) + b' {"a":1 , "b":2}\n' + b"\xaa\xaa" + b">"
    f.cut = 3
    assert f.render().endswith(b"}\n")


def test_a_whole_header_replaces_everything_said_about_it() -> None:
    f = FileBuilder(before=b"x", padding=b"y")
    f.tensor("w", "U8", [1], b"a")
    f.header = b"[]"
    assert f.render() == struct.pack("<Q", 2) + b"[]a"


@pytest.mark.parametrize(("cut", "left"), [(1, 15), (16, 0), (8, 8)])
def test_the_end_can_be_cut_off(cut: int, left: int) -> None:
    assert len(FileBuilder(cut=cut).render()) == left


def test_options_of_a_choice_see_their_own_tensors_bytes_and_metadata() -> None:
    f = FileBuilder()
    f.tensor("w", "U8", [1], b"a", seen_by=["first-wins"])
    f.tensor("w", "U8", [1], b"b", seen_by=["last-wins"])
    f.tensor("x", "U8", [1], b"c", views={"last-wins": b"C"})
    f.metadata({"k": "1"}, views={"last-wins": {"k": "2"}})

    def seen(option: str | None) -> tuple[list[str], Any]:
        content = f.content(option)
        tensors = content["tensors"]
        assert isinstance(tensors, list)
        return [t["sha256"] for t in tensors], content["metadata"]

    def digests(*data: bytes) -> list[str]:
        return [hashlib.sha256(d).hexdigest() for d in data]

    assert seen("first-wins") == (digests(b"a", b"c"), {"k": "1"})
    assert seen("last-wins") == (digests(b"b", b"C"), {"k": "2"})
    assert seen(None) == (digests(b"a", b"b", b"c"), {"k": "1"})
    assert parts(f.render())[1] == b"abc"


@pytest.mark.parametrize("dtype", sorted(naive.BITS))
def test_sizes_are_counted_in_bits(dtype: str) -> None:
    assert size_of(dtype, [2, 4]) == naive.BITS[dtype]
    assert size_of(dtype, [0, 3]) == 0


@pytest.mark.parametrize(("dtype", "shape"), [("F4", [1]), ("F4", []), ("F6_E2M3", [2])])
def test_sizes_that_are_no_whole_bytes_are_refused(dtype: str, shape: list[int]) -> None:
    with pytest.raises(ValueError, match="not a whole number of bytes"):
        size_of(dtype, shape)


@given(st.text(max_size=8), st.integers(0, 300))
def test_patterns_are_repeatable_and_never_zero_or_special(name: str, size: int) -> None:
    data = pattern(name, size)
    assert len(data) == size
    assert data == pattern(name, size)
    assert data == pattern(name, size + 10)[:size]
    assert set(data) <= set(range(1, 61))


def test_patterns_are_finite_in_every_float_dtype() -> None:
    data = pattern("w", 48)
    for code in "efd":
        values = struct.unpack(f"<{48 // struct.calcsize(code)}{code}", data)
        assert all(v - v == 0 for v in values)


@pytest.mark.parametrize(
    "names", [("weight", "bias"), ("a", "b"), ("layer.7.weight", "layer.10.weight"), ("w", "w\0")]
)
def test_patterns_differ_from_tensor_to_tensor(
    names: tuple[str, str], request: pytest.FixtureRequest
) -> None:
    """The docstring promises it, and cases that tell tensors apart by their bytes rely on it."""
    assert pattern(names[0], 8) != pattern(names[1], 8)


def test_json_text_keeps_non_ascii_and_adds_no_space() -> None:
    assert json_text({"é": [1, "\u2028"]}) == '{"é":[1,"\u2028"]}'
