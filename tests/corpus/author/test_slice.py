"""The slice builder: what it asks, what it expects, how its tensors are numbered."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from safetensors_corpus.author.actions import SliceBuilder, index_items, index_json, numbered, numbers


def asked(*index: Any) -> dict[str, Any]:
    f = SliceBuilder()
    numbers(f)
    f.ask("t", *index)
    row: dict[str, Any] = f.content()["tensors"][0]
    return row


def test_content_is_what_numpy_gives() -> None:
    f = SliceBuilder()
    numbers(f)
    array = np.frombuffer(f.tensor_named("t").data, "<i2").reshape(4, 6)
    row = asked(slice(1, 3), slice(2, 5))
    assert row["shape"] == [2, 3]
    assert row["nbytes"] == 12
    assert row["sha256"] == hashlib.sha256(array[1:3, 2:5].tobytes()).hexdigest()


def test_one_element_is_a_scalar() -> None:
    assert asked(1, 2)["shape"] == []


def test_no_index_gives_the_whole_tensor() -> None:
    assert asked()["shape"] == [4, 6]


@pytest.mark.parametrize("index", [(4,), (0, 0, 0), ("x",), (1.0,), (slice(0, 4, 0),)])
def test_what_numpy_refuses_has_no_content(index: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="NumPy rejects"):
        asked(*index)


def test_a_case_must_ask() -> None:
    f = SliceBuilder()
    numbers(f)
    with pytest.raises(ValueError, match="does not request a slice"):
        f.content()
    with pytest.raises(ValueError, match="does not request a slice"):
        f.action()


def test_packed_dtypes_need_an_answer() -> None:
    f = SliceBuilder()
    f.tensor("t", "F4", [2, 2])
    f.ask("t", 1)
    with pytest.raises(ValueError, match="NumPy does not support F4"):
        f.content()
    f.expect([2], f.tensor_named("t").data[1:])
    assert f.content()["tensors"][0]["nbytes"] == 1


def test_an_answer_can_depend_on_the_option() -> None:
    f = SliceBuilder()
    numbers(f)
    f.ask("t", True)
    f.expect([6], bytes(12), option="integer")
    assert f.content("integer")["tensors"][0]["shape"] == [6]
    assert f.content("mask")["tensors"][0]["shape"] == [1, 4, 6]


INDICES: list[tuple[Any, ...]] = [
    (),
    (0, -1, 2**64),
    (..., slice(None)),
    (slice(1, None, -2),),
    (True, None, 1.5, "a", [0, 1]),
]


@pytest.mark.parametrize("index", INDICES)
def test_the_question_survives_the_manifest(index: tuple[Any, ...]) -> None:
    text = json.dumps([index_json(item) for item in index])
    again = index_items(json.loads(text))
    assert again == index
    assert [type(item) for item in again] == [type(item) for item in index]


def test_an_unknown_name_can_be_asked_for() -> None:
    f = SliceBuilder()
    numbers(f)
    f.ask("nobody", 0)
    assert f.action() == {"do": "slice", "tensor": "nobody", "index": [0]}


@pytest.mark.parametrize("width", [2, 4, 8])
def test_no_two_elements_of_a_small_file_are_alike(width: int) -> None:
    data = numbered(0, 100 * width, width) + numbered(100 * width, 100 * width, width)
    elements = [data[at : at + width] for at in range(0, len(data), width)]
    assert len(set(elements)) == 200


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_numbered_elements_are_finite(dtype: str) -> None:
    width = np.dtype(dtype).itemsize
    array = np.frombuffer(numbered(0, 4000 * width, width), dtype)
    assert np.isfinite(array).all()
