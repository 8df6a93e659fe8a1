"""Slices against NumPy itself, for every framework, mode and dtype width."""

from __future__ import annotations

import math
import random
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from safetensors_reference import numpy as with_numpy
from safetensors_reference import safe_open
from safetensors_reference.arrays.slicing import take
from safetensors_reference.header.model import TensorInfo
from safetensors_reference.rules.dtypes import DTYPE_BITS
from safetensors_reference.rules.errors import AccessError

from ..strategies import FEWER
from ..support import raw_bytes, refusal
from ..writing.samples import content

TYPES = ("U8", "I16", "F32", "F64", "C64", "BF16", "F8_E5M2")


def some_part(rng: random.Random, dim: int) -> Any:
    bound = (None, 0, 1, -1, dim, -dim, dim + 1, 2**70, -(2**70), rng.randint(-6, 6))
    way = rng.randrange(6)
    if way < 2:
        index = rng.randint(-dim - 1, dim) if rng.random() < 0.2 else rng.randint(-dim, max(dim - 1, -dim))
        return np.int64(index) if way else index
    step = rng.choice((None, 1, -1, 2, -3, 2**70, rng.randint(-3, 3)))
    return slice(rng.choice(bound), rng.choice(bound), step)


def some_index(rng: random.Random, shape: tuple[int, ...]) -> Any:
    parts = [some_part(rng, dim) for dim in shape[: rng.randint(0, len(shape))]]
    if rng.random() < 0.05:
        parts.append(0)  # perhaps one too many
    if rng.random() < 0.3:
        # What follows an ellipsis counts from the end.
        cut = rng.randint(0, len(parts))
        behind = [some_part(rng, dim) for dim in shape[len(shape) - (len(parts) - cut) :]]
        parts = [*parts[:cut], ..., *behind]
    return parts[0] if len(parts) == 1 and rng.random() < 0.5 else tuple(parts)


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_slices_are_those_of_numpy(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.safetensors"
    rng = random.Random(0)
    shapes = [tuple(rng.choice((0, 1, 1, 2, 3, 4, 5)) for _ in range(rng.randint(0, 4))) for _ in range(400)]
    arrays = {str(n): content(TYPES[n % 7], shape, rng) for n, shape in enumerate(shapes)}
    with_numpy.save_file(arrays, path)
    refused = 0
    with ExitStack() as stack:
        ways = [(framework, mode) for framework in ("np", "pt", "raw") for mode in ("copy", "mmap")]
        files: Any = [(f, stack.enter_context(safe_open(path, f, mode=m))) for f, m in ways]  # type: ignore[call-overload]
        for number in range(count):
            rng = random.Random(number)
            name = rng.choice(list(arrays))
            index = some_index(rng, arrays[name].shape)
            wanted = None
            with suppress(IndexError, ValueError):
                wanted = np.asarray(arrays[name][index])
            refused += wanted is None
            for framework, file in files:
                part = file.get_slice(name)
                assert (part.get_shape(), part.get_dtype()) == ([*shapes[int(name)]], TYPES[int(name) % 7])
                if wanted is None:
                    with pytest.raises(AccessError):
                        part[index]
                    continue
                found = part[index]
                assert (bytes(found) if framework == "raw" else raw_bytes(found)) == wanted.tobytes(), number
                assert framework == "raw" or tuple(found.shape) == wanted.shape, number
    assert count / 100 < refused < count / 3


@pytest.mark.parametrize(
    ("index", "code"),
    [
        *(
            (index, "API_SLICE_UNSUPPORTED")
            for index in (True, np.bool_(True), [0], None, 1.0, "a", (..., ...), slice(0, 1, 0), slice("a"))
        ),
        *((index, "API_SLICE_OUT_OF_RANGE") for index in (3, -4, (0, 0, 0), (0, 4))),
    ],
)
def test_what_is_no_basic_index_is_refused_and_nothing_is_read(index: object, code: str) -> None:
    info = TensorInfo("w", "F32", (3, 4), 0, 48)
    assert refusal(AccessError, take, info, index, lambda *_: pytest.fail("a read"))[0] == code


@pytest.mark.parametrize("rank", [64, 65, 200])
def test_a_slice_of_more_dimensions_than_numpy_holds_is_refused(rank: int) -> None:
    def read(start: int, _: int) -> memoryview:
        return memoryview(b"ab")[start:]

    info = TensorInfo("w", "U8", (2,) + (1,) * (rank - 1), 0, 2)
    assert take(info, (1,) + (0,) * (rank - 1), read)[1] == ord("b")
    if rank == 64:
        assert take(info, 1, read)[0] == (1,) * 63
    else:
        assert refusal(AccessError, take, info, slice(None), read) == ("LIM_RANK", "SHP-10")


@pytest.mark.parametrize(
    ("index", "asked"),
    [
        (2, [(12, 6)]),
        ((slice(1, 3), 0), [(6, 12)]),
        ((0, slice(4, 1, -2)), [(2, 3)]),
        ((3, 5), [(23, 1)]),
        ((slice(2, 2), 0), []),
    ],
)
def test_only_the_rows_of_a_slice_are_read(index: object, asked: list[tuple[int, int]]) -> None:
    reads = []

    def read(start: int, count: int) -> memoryview:
        reads.append((start, count))
        return memoryview(bytes(count))

    take(TensorInfo("w", "U8", (4, 6), 0, 24), index, read)
    assert reads == asked


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
@example(("F4", (3, 4, 2), (slice(None, None, -1), 1)))
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
    try:
        found, raw = take(info, index, lambda start, size: memoryview(data)[start : start + size])
    except AccessError as err:
        assert err.code == "API_SLICE_UNSUPPORTED"  # noqa: PT017 - not every slice is refused
        # Rows that share bytes are handed out one run at a time, even where several would fit together; a
        # selection of nothing is refused where its place is inside a byte.
        one_run = bool(flat) and flat == list(range(flat[0], flat[-1] + 1))
        assert not aligned or not (one_run or (flat and math.prod(shape[1:]) % group == 0))
        return
    assert aligned
    assert found == chosen.shape
    assert bytes(raw) == b"".join(data[g[0] // group * width :][:width] for g in groups)
