"""Recipes: every way of making a file from one gives the same bytes, quickly and without filling holes."""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_corpus import Manifest, recipe
from safetensors_corpus.author.file import RecipeBuilder
from safetensors_corpus.publish.build import schema

Part = dict[str, Any]

PART_SCHEMA = {"$defs": schema()["$defs"], **schema()["$defs"]["parts"]["properties"]["parts"]["items"]}


def plainly(part: Part) -> bytes:
    """Expand one part in the most obvious way, for comparison. Shares no code with ``recipe``."""
    match part:
        case {"hex": digits}:
            return bytes(int(a + b, 16) for a, b in zip(digits[::2], digits[1::2], strict=True))
        case {"text": text}:
            return str(text).encode("utf-8")
        case {"repeat": unit, "count": count}:
            return plainly(unit) * int(count)
        case {"zeros": count}:
            return bytes(int(count))
        case {"each": text, "count": count}:
            first = part.get("first", 0)
            items = []
            for i in range(first, first + count):
                # Cut at one mark and put the number in between, so that nothing is replaced twice.
                pieces = [piece.replace("{next}", f"{i + 1}") for piece in text.split("{i}")]
                items.append(f"{i}".join(pieces))
            return bytes(part.get("separator", "").join(items), "utf-8")
    raise AssertionError(part)


text = st.text(st.sampled_from('ab%{}",:\\é😀\n '), max_size=6)
template = st.lists(text | st.sampled_from(["{i}", "{next}", "{}", "%d", "{I}"]), max_size=6).map("".join)
literal = st.binary(max_size=40).map(lambda b: {"hex": b.hex()}) | text.map(lambda value: {"text": value})
# Around multiples of a thousand, where the leading digits change.
edges = st.sampled_from([998, 999, 1000, 1001, 9_990, 99_998, 999_500])
firsts = st.integers(0, 30) | edges | st.integers(0, 10**7)
counts = st.integers(1, 5) | st.integers(1, 30) | st.sampled_from([999, 1000, 1001, 2001, 21_001])
starts = {"first": firsts, "separator": text}
each = st.fixed_dictionaries({"each": template, "count": counts}, optional=starts)
repeat = st.fixed_dictionaries({"repeat": literal, "count": st.integers(1, 300)})
zeros = st.fixed_dictionaries({"zeros": st.integers(1, 5000)})
parts = st.lists(st.one_of(literal, each, repeat, zeros), max_size=4)


@given(parts)
@settings(max_examples=100)
def test_all_ways_of_making_a_file_agree(tmp_path_factory: pytest.TempPathFactory, made: list[Part]) -> None:
    for part in made:
        jsonschema.Draft202012Validator(PART_SCHEMA).validate(part)
    expected = b"".join(map(plainly, made))
    without_holes = b"".join(plainly(part) for part in made if "zeros" not in part)
    digest = hashlib.sha256(without_holes).hexdigest()
    assert recipe.expand(made) == expected
    assert recipe.size(made) == len(expected)
    assert recipe.digest(made) == digest
    path = tmp_path_factory.getbasetemp() / "made.bin"
    with path.open("wb") as file:
        assert recipe.write(made, file) == (len(expected), digest)
    assert path.read_bytes() == expected


runs = st.builds(lambda b, n: b * n, st.binary(max_size=1), st.integers(0, 500))


@given(st.lists(st.binary(max_size=20) | runs))
def test_a_recipe_made_from_bytes_gives_them_back(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    made = recipe.from_bytes(data)
    assert recipe.expand(made) == data == b"".join(map(plainly, made))
    assert recipe.size(made) == len(data)
    for part in made:
        jsonschema.Draft202012Validator(PART_SCHEMA).validate(part)
    assert not any("hex" in a and "hex" in b for a, b in pairwise(made))


def test_large_parts_come_in_small_pieces() -> None:
    for part in (
        {"repeat": {"text": "abc"}, "count": 10_000_000},
        {"each": "item {i}, ", "count": 1_000_000},
    ):
        assert max(map(len, recipe.chunks(part))) <= 4 << 20


def test_a_million_items_take_about_a_second_at_most() -> None:
    part: Part = {"each": '"t{i}":{"dtype":"U8","shape":[1],"data_offsets":[{i},{next}]}', "count": 1_000_000}
    start = time.process_time()
    recipe.digest([part])
    assert recipe.size([part]) == 66_666_676
    assert time.process_time() - start < 2


def test_holes_take_no_room_on_disk_and_no_time(tmp_path: Path) -> None:
    made: list[Part] = [{"text": "head"}, {"zeros": 2**40}, {"text": "tail"}, {"zeros": 2**20}]
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        size, digest = recipe.write(made, file)
    status = path.stat()
    assert size == status.st_size == recipe.size(made) == 2**40 + 2**20 + 8
    assert digest == hashlib.sha256(b"headtail").hexdigest()
    assert status.st_blocks * 512 < 1 << 20
    with path.open("rb") as written:
        written.seek(2**40 + 4)
        assert written.read(5) == b"tail\0"


WRONG: list[tuple[Any, str]] = [
    ({}, "not a literal part"),
    ({"nothing": 1}, "not a literal part"),
    ({"hex": "00", "text": "a"}, "not a literal part"),
    ({"hex": "0"}, "fromhex"),
    ({"hex": "zz"}, "fromhex"),
    ({"text": 5}, "text is 5"),
    ({"text": "\ud800"}, "surrogates not allowed"),
    ({"zeros": 0}, "zeros: .* not 0"),
    ({"zeros": -1}, "zeros: .* not -1"),
    ({"zeros": 1.5}, "zeros: .* not 1.5"),
    ({"zeros": 1, "count": 1}, "unknown key 'count'"),
    ({"repeat": {"text": "a"}}, "has no 'count'"),
    ({"repeat": {"text": "a"}, "count": 0}, "count: .* not 0"),
    ({"repeat": {"text": "a"}, "count": -3}, "count: .* not -3"),
    ({"repeat": {"text": "a"}, "count": True}, "count: .* not true"),
    ({"repeat": {"zeros": 4}, "count": 1}, "not a literal part"),
    ({"each": "x"}, "has no 'count'"),
    ({"each": "x", "count": -1}, "count: .* not -1"),
    ({"each": "x", "count": 1, "first": -1}, "first: .* not -1"),
    ({"each": "x", "count": 1, "last": 3}, "unknown key 'last'"),
]


@pytest.mark.parametrize(("part", "words"), WRONG)
def test_a_part_that_the_schema_forbids_is_refused(part: Part, words: str) -> None:
    if "\ud800" not in str(part.get("text")):
        assert not jsonschema.Draft202012Validator(PART_SCHEMA).is_valid(part)
    for make in (recipe.size, recipe.digest, recipe.expand, lambda made: recipe.write(made, io.BytesIO())):
        with pytest.raises(ValueError, match=words):
            make([part])


@pytest.mark.parametrize(
    ("part", "key"),
    [
        ({"zeros": recipe.LARGEST_FILE}, "zeros"),
        ({"repeat": {"hex": ""}, "count": recipe.LARGEST_MADE}, "count"),
        ({"each": "", "count": 1, "first": 1 << 64}, "first"),
    ],
)
def test_the_largest_numbers_are_taken_and_none_above(part: Part, key: str) -> None:
    recipe.check(part)
    with pytest.raises(ValueError, match=rf"{key}: must be a whole number <= |the maximum of {key} is"):
        recipe.check({**part, key: part[key] + 1})


def test_a_file_is_expanded_up_to_what_memory_is_meant_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "LARGEST_MADE", 6)
    assert recipe.expand([{"zeros": 5}, {"text": "a"}]) == bytes(5) + b"a"
    with pytest.raises(ValueError, match="produces 7 bytes, but at most 6 can be created in memory"):
        recipe.expand([{"zeros": 6}, {"text": "a"}])


def test_descriptions_are_short_whatever_the_part(manifest: Manifest) -> None:
    for case in manifest.cases:
        for line in recipe.describe(case.input.recipe).splitlines():
            assert len(line) < 200


def test_the_builder_refuses_headers_that_are_too_small() -> None:
    with pytest.raises(ValueError, match="too small for"):
        RecipeBuilder().fill_header(5, "longer", "}")
    f = RecipeBuilder()
    f.header("12345")
    with pytest.raises(ValueError, match="already 3 bytes longer than 2 bytes"):
        f.pad_header(2)


TEXTS = st.text(st.characters(), max_size=6)  # halves of surrogate pairs included


@given(TEXTS, st.dictionaries(TEXTS | st.just("items"), TEXTS, max_size=4))
def test_texts_and_maps_come_back_from_what_json_can_carry(text: str, mapping: dict[str, str]) -> None:
    spelled, spelled_map = recipe.spelled(text), recipe.spelled_map(mapping)
    assert isinstance(spelled, str) == (re.search("[\ud800-\udfff]", text) is None)
    json.dumps([spelled, spelled_map], ensure_ascii=False).encode()  # no half is left
    assert recipe.text_of(json.loads(json.dumps(spelled))) == text
    assert list(recipe.map_of(json.loads(json.dumps(spelled_map))).items()) == list(mapping.items())
