"""Slices against NumPy itself, for every framework, mode and dtype width."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

from safetensors_reference import safe_open
from safetensors_reference.arrays.numpy import PackedTensor
from safetensors_reference.arrays.slicing import take
from safetensors_reference.header.model import TensorInfo
from safetensors_reference.rules.dtypes import DTYPE_BITS
from safetensors_reference.rules.errors import AccessError

from ..strategies import FEWER
from ..support import make

WIDTHS = {"U8": "u1", "I16": "<i2", "F32": "<f4", "C64": "<c8"}


def info_of(array: np.ndarray[Any, Any], dtype: str) -> TensorInfo:
    return TensorInfo("w", dtype, array.shape, 0, array.nbytes)


@FEWER
@given(st.data())
def test_a_slice_is_the_same_slice_of_the_whole_and_reads_no_more_than_its_rows(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(sorted(WIDTHS)))
    shape = data.draw(array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = np.arange(int(np.prod(shape)), dtype=WIDTHS[dtype]).reshape(shape)
    index = data.draw(basic_indices(shape, max_dims=len(shape), allow_newaxis=False))
    raw = array.tobytes()
    asked: list[tuple[int, int]] = []

    def read(start: int, count: int) -> memoryview:
        asked.append((start, count))
        assert 0 <= start <= start + count <= len(raw)
        return memoryview(raw)[start : start + count]

    got_shape, got = take(info_of(array, dtype), index, read)
    expected = array[index]
    assert got_shape == expected.shape
    assert got.tobytes() == expected.tobytes()
    assert len(asked) <= 1
    if asked and isinstance(index, tuple) and index and isinstance(index[0], int):
        assert asked[0][1] <= array.nbytes // array.shape[0]


@pytest.mark.parametrize(
    ("index", "code"),
    [
        (3, "API_SLICE_OUT_OF_RANGE"),
        (-4, "API_SLICE_OUT_OF_RANGE"),
        ((0, 0, 0), "API_SLICE_OUT_OF_RANGE"),
        ((0, 4), "API_SLICE_OUT_OF_RANGE"),
        (True, "API_SLICE_UNSUPPORTED"),
        (np.bool_(True), "API_SLICE_UNSUPPORTED"),
        ([0], "API_SLICE_UNSUPPORTED"),
        (None, "API_SLICE_UNSUPPORTED"),
        (1.0, "API_SLICE_UNSUPPORTED"),
        ("a", "API_SLICE_UNSUPPORTED"),
        ((..., ...), "API_SLICE_UNSUPPORTED"),
        (slice(None, None, 0), "API_SLICE_UNSUPPORTED"),
        (slice("a"), "API_SLICE_UNSUPPORTED"),
    ],
)
def test_what_is_no_basic_index_is_refused_and_nothing_is_read(index: object, code: str) -> None:
    array = np.zeros((3, 4), "<f4")

    def read(start: int, count: int) -> memoryview:
        raise AssertionError((start, count))

    with pytest.raises(AccessError) as caught:
        take(info_of(array, "F32"), index, read)
    assert caught.value.code == code


def test_sub_byte_slices_stop_at_whole_bytes() -> None:
    raw = bytes(range(12))
    info = TensorInfo("w", "F4", (3, 4, 2), 0, 12)

    def read(start: int, count: int) -> memoryview:
        return memoryview(raw)[start : start + count]

    shape, data = take(info, (slice(None, None, -1), 1), read)
    assert shape == (3, 2)
    assert data.tolist() == [9, 5, 1]
    assert take(info, (0, slice(None), slice(None)), read)[0] == (4, 2)
    for cut in ((0, 0, 0), (..., slice(0, 1))):
        with pytest.raises(AccessError) as caught:
            take(info, cut, read)
        assert caught.value.code == "API_SLICE_UNSUPPORTED"


@pytest.mark.parametrize("mode", ["copy", "mmap"])
@pytest.mark.parametrize("framework", ["np", "pt"])
def test_slices_of_an_open_file(tmp_path: Path, framework: str, mode: Any) -> None:
    array = np.arange(60, dtype="<f4").reshape(3, 4, 5)
    header = '{"w":{"dtype":"F32","shape":[3,4,5],"data_offsets":[0,240]}}'
    path = tmp_path / "x.safetensors"
    path.write_bytes(make(header, array.tobytes()))
    with safe_open(path, framework, mode=mode) as file:
        part = file.get_slice("w")
        assert (part.get_shape(), part.get_dtype()) == ([3, 4, 5], "F32")
        index: Any = (slice(None, None, -2), ..., slice(100, 0, -3))
        got = part[index]
    assert isinstance(got, torch.Tensor if framework == "pt" else np.ndarray)
    assert np.array_equal(np.asarray(got), array[index])


def test_an_open_file_hands_out_packed_slices() -> None:
    header = '{"w":{"dtype":"F6_E2M3","shape":[2,4],"data_offsets":[0,6]}}'
    with safe_open(make(header, b"abcdef"), "np") as file:
        got = file.get_slice("w")[1]
    assert isinstance(got, PackedTensor)
    assert (got.dtype, got.shape, got.raw.tobytes()) == ("F6_E2M3", (4,), b"def")


GROUPS = {"F4": 2, "F6_E2M3": 4, "F6_E3M2": 4}
"""Packed dtype -> elements that fill whole bytes together."""


@st.composite
def packed_questions(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int | slice, ...]]:
    """A packed dtype, a shape that fills whole bytes, and integers and plain ranges within it."""
    dtype = draw(st.sampled_from(sorted(GROUPS)))
    shape = tuple(draw(st.lists(st.integers(1, 8), min_size=1, max_size=3)))
    assume(math.prod(shape) % GROUPS[dtype] == 0)
    index: list[int | slice] = []
    for dim in shape:
        start, stop = sorted((draw(st.integers(0, dim)), draw(st.integers(0, dim))))
        parts: list[int | slice] = [slice(None), draw(st.integers(0, dim - 1)), slice(start, stop)]
        index.append(draw(st.sampled_from(parts)))
    return dtype, shape, tuple(index)


@FEWER
@given(packed_questions())
@example(("F4", (1, 2, 5), (slice(None), 0, slice(0, 2))))
@example(("F4", (2, 2, 5), (slice(1, 2), 0, slice(0, 4))))
def test_a_slice_of_a_packed_tensor_is_given_when_it_consists_of_whole_bytes(
    question: tuple[str, tuple[int, ...], tuple[int | slice, ...]],
) -> None:
    dtype, shape, index = question
    group = GROUPS[dtype]
    width = DTYPE_BITS[dtype] * group // 8
    count = math.prod(shape)
    data = bytes(i % 251 for i in range(count // group * width))
    info = TensorInfo("t", dtype, shape, 0, len(data))
    chosen = np.arange(count).reshape(shape)[index]
    flat = [int(i) for i in chosen.reshape(-1)]
    groups = [flat[i : i + group] for i in range(0, len(flat), group)]
    aligned = all(g == list(range(g[0], g[0] + group)) and g[0] % group == 0 for g in groups)
    refused = None
    try:
        found, raw = take(info, index, lambda start, size: memoryview(data)[start : start + size])
    except AccessError as err:
        refused = err
    if refused is not None:
        assert refused.code == "API_SLICE_UNSUPPORTED"
        # Rows that share bytes are handed out one run at a time, even where several would fit together; a
        # selection of nothing is refused where its place is inside a byte.
        one_run = bool(flat) and flat == list(range(flat[0], flat[-1] + 1))
        assert not aligned or not (one_run or (flat and math.prod(shape[1:]) % group == 0))
        return
    assert aligned
    assert found == chosen.shape
    assert bytes(raw) == b"".join(data[g[0] // group * width :][:width] for g in groups)
