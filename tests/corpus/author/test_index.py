"""The index builder: where files lie, what a loader must find, and that decoys differ from shards."""

from __future__ import annotations

import json

import pytest

from safetensors_corpus.author.index import INDEX_NAME, IndexBuilder, numbered

A, B = numbered(1, 2), numbered(2, 2)
Files = dict[str, bytes]


def stored(f: IndexBuilder) -> Files:
    return {name.removeprefix("files/index/x/"): data for name, data in f.stored("index/x")[1].items()}


def two() -> IndexBuilder:
    f = IndexBuilder()
    f.shard(A, "a")
    f.shard(B, b=("I16", [3]))
    f.index({"a": A, "b": B})
    return f


def test_the_usual_names() -> None:
    assert numbered(3, 12) == "model-00003-of-00012.safetensors"


def test_files_lie_in_the_folder_of_the_checkpoint_or_outside() -> None:
    f = two()
    f.shard("../outside/x.safetensors", "b")
    f.shard("sub/y.safetensors", "b")
    f.file("config.json", b"{}")
    assert set(stored(f)) == {
        "model/" + A,
        "model/" + B,
        "model/" + INDEX_NAME,
        "model/sub/y.safetensors",
        "model/config.json",
        "outside/x.safetensors",
    }


def test_the_input_names_every_file_and_the_one_to_open() -> None:
    raw, _ = two().stored("index/x")
    assert raw["directory"] == "files/index/x"
    assert raw["open"] == "model/" + INDEX_NAME
    assert [row["path"] for row in raw["files"]] == sorted(row["path"] for row in raw["files"])
    assert not any("template" in row for row in raw["files"])


def test_the_index_has_the_right_total_size() -> None:
    index = json.loads(stored(two())["model/" + INDEX_NAME])
    assert index == {"metadata": {"total_size": 14}, "weight_map": {"a": A, "b": B}}


def test_metadata_can_be_said() -> None:
    f = IndexBuilder()
    f.index({"a": A}, metadata={})
    assert json.loads(stored(f)["model/" + INDEX_NAME])["metadata"] == {}


@pytest.mark.parametrize("raw", ["{\u00e9", "{\u00e9".encode()])
def test_the_text_can_be_said(raw: str | bytes) -> None:
    f = IndexBuilder()
    f.index(raw=raw)
    assert stored(f)["model/" + INDEX_NAME] == b"{\xc3\xa9"


def test_content_follows_the_map() -> None:
    rows = two().content()["tensors"]
    assert [(row["name"], row["dtype"], row["shape"]) for row in rows] == [
        ("a", "F32", [2]),
        ("b", "I16", [3]),
    ]


def test_content_can_be_said_for_an_option() -> None:
    f = two()
    f.expect(("a", A), option="less")
    assert [row["name"] for row in f.content("less")["tensors"]] == ["a"]
    assert [row["name"] for row in f.content("other")["tensors"]] == ["a", "b"]


def test_the_same_tensor_has_other_bytes_in_every_shard() -> None:
    f = IndexBuilder()
    names = (A, B, "../outside/x.safetensors", "x.safetensors", "sub/x.safetensors")
    data = {f.shard(name, "a").tensor_named("a").data for name in names}
    assert len(data) == len(names)
    assert len({f.shard(A, *"abc").tensor_named(tensor).data for tensor in "abc"}) == 3


def test_a_template_is_marked() -> None:
    f = IndexBuilder()
    f.index({"a": "@ROOT@/x.safetensors"}, template=True)
    raw, _ = f.stored("index/x")
    assert raw["files"] == [{**raw["files"][0], "path": "model/" + INDEX_NAME, "template": True}]


def test_large_files_are_refused() -> None:
    f = IndexBuilder()
    f.file("x", bytes(65537))
    f.index({})
    with pytest.raises(ValueError, match="too large to store"):
        f.stored("index/x")


def test_features_are_those_of_all_shards() -> None:
    assert two().features() == ["dtype-f32", "dtype-i16"]
