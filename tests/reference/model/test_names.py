"""Which names in a folder make up a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference.model.names import (
    ModelFiles,
    find_models,
    index_stem,
    missing_numbers,
    numbered,
    sibling,
)
from safetensors_reference.sharded.index import shard_name

A, B, C = (shard_name("model", n, 3) for n in (1, 2, 3))
INDEX = "model.safetensors.index.json"


@given(st.text(min_size=1), st.integers(0, 99_999), st.integers(1, 99_999))
def test_a_conventional_name_is_read_back(stem: str, number: int, total: int) -> None:
    name = shard_name(stem, number, total)
    assert numbered(name) == (stem, number, total)
    assert sibling(name, 7) == shard_name(stem, 7, total)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "-1-of-2.safetensors", "m-1-of-2.bin", "m-x-of-2.safetensors", INDEX]
)
def test_other_names_have_no_number(name: str) -> None:
    assert numbered(name) is None


def test_the_variant_of_an_index_is_part_of_its_stem() -> None:
    assert index_stem(INDEX) == "model"
    assert index_stem("model.fp16.safetensors.index.json") == "model.fp16"
    assert index_stem("model.safetensors.index.fp16.json") == "model.fp16"
    assert index_stem("config.json") is None


def test_single_files_are_no_models() -> None:
    assert find_models(["model.safetensors", "adapter.safetensors", "config.json"]) == []


def test_shards_go_to_the_index_of_their_stem() -> None:
    other = shard_name("model", 1, 2)
    assert find_models(
        [C, A, INDEX, other, "model.safetensors", "consolidated.safetensors", "x.safetensors"]
    ) == [ModelFiles("model", INDEX, (other, A, C), ("consolidated.safetensors", "model.safetensors"))]


def test_shards_without_an_index_are_a_model_for_each_count() -> None:
    other = shard_name("model", 1, 2)
    assert find_models([A, other, B]) == [
        ModelFiles("model", None, (other,), (A, B)),
        ModelFiles("model", None, (A, B), (other,)),
    ]


def test_indexes_are_rivals_of_each_other() -> None:
    found = find_models([INDEX, "b.safetensors.index.json"])
    assert [(m.stem, m.rivals) for m in found] == [("b", (INDEX,)), ("model", ("b.safetensors.index.json",))]


@given(st.sets(st.integers(0, 30)), st.integers(1, 20))
def test_the_gaps_are_the_numbers_that_are_missing(numbers: set[int], count: int) -> None:
    first = 0 if 0 in numbers else 1
    missing = [n for low, high in missing_numbers(numbers, count) for n in range(low, high + 1)]
    assert missing == sorted(set(range(first, first + count)) - numbers)


def test_a_count_without_end_costs_nothing() -> None:
    assert missing_numbers({1, 5}, 999_999_999) == [(2, 4), (6, 999_999_999)]
