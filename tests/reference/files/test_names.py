"""Which names in a folder make up a model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference.files.names import (
    MAX_STRAYS,
    ModelFiles,
    find_gaps,
    find_models,
    index_stem,
    is_index,
    is_model_file,
    missing_numbers,
    parse_shard_number,
    shard_name,
    sibling_name,
)

A, B, C = (shard_name("model", n, 3) for n in (1, 2, 3))
INDEX = "model.safetensors.index.json"


@given(st.text(min_size=1), st.integers(0, 99_999), st.integers(1, 99_999))
def test_a_conventional_name_is_read_back(stem: str, number: int, total: int) -> None:
    name = shard_name(stem, number, total)
    assert parse_shard_number(name) == (stem, number, total)
    assert sibling_name(name, 7) == shard_name(stem, 7, total)


def test_other_names_have_no_number_and_a_variant_is_part_of_a_stem() -> None:
    for name in ("model.safetensors", "-1-of-2.safetensors", "m-1-of-2.bin", "m-x-of-2.safetensors", INDEX):
        assert parse_shard_number(name) is None
    indexes = (INDEX, "model.fp16.safetensors.index.json", "model.safetensors.index.fp16.json", "config.json")
    assert [*map(index_stem, indexes)] == ["model", "model.fp16", "model.fp16", None]
    assert is_index("https://h/model.safetensors.index.fp16.json?download=true")
    assert not is_index("https://h/model.safetensors?of=m.safetensors.index.json")
    assert not is_index("m.safetensors.index.x/config.json")


HOOKS = yaml.safe_load((Path(__file__).parents[3] / ".pre-commit-hooks.yaml").read_text())
PARTS = (".safetensors", ".index", ".json", ".fp16", "a", "/", ".", "-00001-of-00002", "consolidated")
NAMES = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)


@given(NAMES)
def test_the_hooks_and_all_commands_look_for_the_same_names(name: str) -> None:
    assert {bool(re.search(hook["files"], name)) for hook in HOOKS} == {is_model_file(name)}
    assert is_index(name) >= (is_model_file(name) and not name.endswith(".safetensors"))


@given(st.lists(NAMES, max_size=8))
def test_a_model_is_made_of_files_that_are_looked_for(names: list[str]) -> None:
    assert all(is_model_file(name) for model in find_models(names) for name in model.files)


def test_shards_go_to_the_index_of_their_stem() -> None:
    other, single, rival = shard_name("model", 1, 2), "model.safetensors", "consolidated.safetensors"
    (found,) = find_models([C, A, INDEX, other, single, rival, "x.safetensors"])
    assert found == ModelFiles("model", INDEX, (other, A, C), (rival, single), ("x.safetensors",))
    assert find_models([single, "x.safetensors", "config.json"]) == []


def test_a_collection_of_files_has_no_strays() -> None:
    (model,) = find_models([INDEX, *(f"{number}.safetensors" for number in range(MAX_STRAYS + 1))])
    assert model.strays == ()


@pytest.mark.parametrize(
    ("numbers", "gaps"),
    [
        (["00000", "00001", "00003"], {"00003": "00002"}),
        (["1", "2", "4", "8", "9", "10"], {"4": "3", "8": "5"}),
        (["08", "09", "11"], {"11": "10"}),
        (["1", "2", "3"], {}),
        (["1", "3"], {}),
        (["1000", "2000", "3000"], {}),
        (["1", "2", "4-of-4"], {}),
    ],
)
def test_gaps_in_names_without_a_total(numbers: list[str], gaps: dict[str, str]) -> None:
    name = "out-{}.safetensors".format
    expected = {name(after): name(missing) for after, missing in gaps.items()}
    assert find_gaps([*map(name, numbers), "out.safetensors", "other-7.safetensors"]) == expected


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
