"""The builders: what they refuse.

``stc corpus build --check`` compares everything that they build for cases, byte for byte.
"""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus.actions import covered
from safetensors_corpus.author.actions import SliceBuilder, numbers
from safetensors_corpus.author.file import size_of
from safetensors_corpus.author.index import IndexBuilder
from safetensors_corpus.author.write import WriteBuilder


def test_a_size_that_is_no_whole_number_of_bytes_is_refused() -> None:
    assert size_of("F4", [2, 0]) == 0
    with pytest.raises(ValueError, match="not a whole number of bytes"):
        size_of("F4", [1])


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
