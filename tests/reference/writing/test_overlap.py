"""Which strided views share bytes, against counting every byte of every element."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from safetensors_reference.writing.torch import Place, groups, share

from ..strategies import FEWER


def place(
    name: str,
    address: int,
    itemsize: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: str = "cpu",
) -> Place:
    return Place.of(name, device, address, itemsize, shape, strides)


def covered(address: int, itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> set[int]:
    out: set[int] = set()
    for at in product(*map(range, shape)):
        first = address + itemsize * sum(i * s for i, s in zip(at, strides, strict=True))
        out.update(range(first, first + itemsize))
    return out


@st.composite
def spots(draw: DrawFn) -> tuple[Place, set[int]]:
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    strides = tuple(draw(st.lists(st.integers(0, 8), min_size=rank, max_size=rank)))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    address = 4096 + draw(st.integers(0, 40))
    name = draw(st.text("abc", min_size=1, max_size=2))
    return place(name, address, itemsize, shape, strides), covered(address, itemsize, shape, strides)


@FEWER
@given(spots())
def test_extent_and_density(spot: tuple[Place, set[int]]) -> None:
    here, bytes_ = spot
    assert (here.address, here.end) == (min(bytes_), max(bytes_) + 1)
    assert here.dense == (len(bytes_) == here.end - here.address)


@FEWER
@given(spots(), spots())
def test_sharing(a: tuple[Place, set[int]], b: tuple[Place, set[int]]) -> None:
    assert share(a[0], b[0]) == share(b[0], a[0]) == bool(a[1] & b[1])


@FEWER
@given(st.lists(spots(), max_size=6, unique_by=lambda spot: spot[0].name))
def test_groups(spots_: list[tuple[Place, set[int]]]) -> None:
    # Merge sets of bytes until no two touch each other.
    merged = [({here.name}, set(bytes_)) for here, bytes_ in spots_]
    while True:
        pair = next(((a, b) for a, b in combinations(merged, 2) if a[1] & b[1]), None)
        if pair is None:
            break
        merged = [m for m in merged if m is not pair[0] and m is not pair[1]]
        merged.append((pair[0][0] | pair[1][0], pair[0][1] | pair[1][1]))
    wanted = sorted(sorted(names) for names, _ in merged if len(names) > 1)
    assert sorted(sorted(p.name for p in g) for g in groups(here for here, _ in spots_)) == wanted


def test_rows_and_columns_of_one_matrix() -> None:
    rows = [place(f"r{i}", 4096 + 40 * i, 4, (10,), (1,)) for i in range(10)]
    columns = [place(f"c{i}", 4096 + 4 * i, 4, (10,), (10,)) for i in range(10)]
    assert groups(rows) == []
    assert groups(columns) == []
    assert len(groups(rows + columns)) == 1
    assert [p.name for p in groups([*rows, columns[3]])[0]][:2] == ["r0", "c3"]


def test_other_devices_are_other_memory() -> None:
    a = place("a", 4096, 4, (4,), (1,))
    b = place("b", 4096, 4, (4,), (1,), "cuda:0")
    c = place("c", 4096, 4, (4,), (1,), "cuda:1")
    assert groups([a, b, c]) == []
    assert [[p.name for p in g] for g in groups([a, b, c, place("d", 4100, 1, (1,), (1,), "cuda:0")])] == [
        ["b", "d"]
    ]


def test_many_views_of_one_storage_are_quick() -> None:
    many = [place(str(i), 4096 + 64 * i, 4, (4, 4), (4, 1)) for i in range(20_000)]
    assert groups(many) == []
    assert len(groups([*many, place("all", 4096, 4, (320_000,), (1,))])[0]) == 20_001


def test_a_pair_that_is_too_hard_counts_as_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = place("a", 4096, 1, (4,), (2,)), place("b", 4097, 1, (4,), (2,))
    assert not share(a, b)

    def give_up(*_: object, **__: object) -> bool:
        raise np.exceptions.TooHardError

    monkeypatch.setattr(np, "shares_memory", give_up)
    assert share(a, b)


def test_more_dimensions_than_numpy_has() -> None:
    # Only as many dimensions as memory can hold reach NumPy: length 1 and stride 0 do not count.
    a = place("a", 4096, 4, (1,) * 70 + (2,) * 70 + (3,), (5,) * 70 + (0,) * 70 + (2,))
    b = place("b", 4100, 4, (3,), (2,))
    assert a.dims == ((3, 8),)
    assert not share(a, b)
