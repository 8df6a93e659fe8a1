"""Cuts and plans of sharded loading, without any process: against torch's own cuts and byte by byte."""

from __future__ import annotations

import itertools
from math import prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from safetensors_reference.device.ranks.plan import (
    MIN_RUN,
    Cut,
    LoadItem,
    PlannedFile,
    cut_along,
    make_item,
    make_load_plan,
    own_segments,
    row,
    sources,
    spread,
)
from safetensors_reference.header.model import TensorInfo
from safetensors_reference.rules.errors import AccessError

from ...naive import BITS
from ...strategies import FEWER
from ..support import slices_of

worlds = st.integers(1, 7)
codes = st.sampled_from(sorted(BITS))


def info_of(code: str, shape: list[int], begin: int = 0, name: str = "t") -> TensorInfo:
    return TensorInfo(name, code, tuple(shape), begin, begin + prod(shape) * BITS[code] // 8)


@st.composite
def infos(draw: st.DrawFn, least: int = 1) -> TensorInfo:
    code, shape = draw(codes), draw(st.lists(st.integers(0, 9), min_size=least, max_size=4))
    assume(prod(shape) * BITS[code] % 8 == 0)
    return info_of(code, shape)


def bytes_of(cut: Cut, rank: int) -> list[int]:
    """The bytes of the tensor that a rank gets, in order."""
    share = cut.shares[rank]
    starts = [share.first + i * cut.step for i in range(cut.runs)]
    return [start + k for start in starts for k in range(share.run)]


@FEWER
@given(infos(), st.data(), worlds)
def test_a_share_has_the_bytes_of_its_elements(info: TensorInfo, data: st.DataObject, world: int) -> None:
    dim = data.draw(st.integers(-len(info.shape), len(info.shape) - 1))
    wanted = slices_of(info.dtype, info.shape, dim, world)
    size = info.shape[dim]
    if size % world and data.draw(st.booleans()):
        text = f"dimension {dim % len(info.shape)} of size {size} cannot be cut evenly among {world} ranks"
        with pytest.raises(AccessError, match=f'^f: tensor "t": {text}; uneven=') as caught:
            cut_along("f", info, dim, world)
        assert caught.value.code == "API_SLICE_UNSUPPORTED"
        return
    try:
        cut = cut_along("f", info, dim, world, "split" if size % world else "refuse")
    except AccessError as err:
        assert (wanted, err.code) == (None, "API_SLICE_UNSUPPORTED")  # noqa: PT017 - it depends on the data
        return
    assert [(cut.shares[rank].shape, bytes_of(cut, rank)) for rank in range(world)] == wanted
    assert all(cut.runs * share.run <= cut.room for share in cut.shares)


OUTSIDE, NO_NUMBER = "API_SLICE_OUT_OF_RANGE", "UNCLASSIFIED"


@pytest.mark.parametrize(
    ("shape", "dim", "code", "text"),
    [
        ([], 0, OUTSIDE, "a scalar has no dimension to cut"),
        ([], -1, OUTSIDE, "a scalar has no dimension to cut"),
        ([4, 4], 2, OUTSIDE, r"there is no dimension 2 in the shape \[4, 4\]"),
        ([4, 4], -3, OUTSIDE, "no dimension -3"),
        *(([4, 4], odd, NO_NUMBER, f"a dimension must be a number, not {odd}") for odd in (True, 1.0)),
        ([4, 4], "0", NO_NUMBER, 'a dimension must be a number, not "0"'),
    ],
)
def test_dimensions_that_are_none(shape: list[int], dim: int, code: str, text: str) -> None:
    with pytest.raises(AccessError, match=text) as caught:
        cut_along("f", info_of("F32", shape), dim, 2)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("columns", "dim", "world", "way"),
    [
        (2 * MIN_RUN, 0, 2, "own"),
        (2 * MIN_RUN, 1, 2, "own"),
        (2 * MIN_RUN - 2, 0, 2, "own"),
        (2 * MIN_RUN - 2, 1, 2, "scatter"),
        (2 * MIN_RUN - 2, None, 2, "broadcast"),
        (2 * MIN_RUN - 2, 1, 1, "own"),
        (2 * MIN_RUN - 2, None, 1, "own"),
    ],
)
def test_which_way_a_tensor_goes(columns: int, dim: int | None, world: int, way: str) -> None:
    known = PlannedFile("f", 8, {"t": info_of("U8", [4, columns]), "flat": info_of("U8", [1, 1, 10])})
    assert make_item(known, 0, "t", dim, world, "refuse").way == way
    assert make_item(known, 0, "flat", 2, 2, "refuse").way == "own"


@FEWER
@given(st.dictionaries(st.integers(0, 50), st.integers(0, 9), max_size=20), worlds)
def test_spread_is_even_and_the_same_on_every_rank(sizes: dict[int, int], world: int) -> None:
    owners = spread(sizes, world)
    loads = [sum(size for key, size in sizes.items() if owners[key] == rank) for rank in range(world)]
    assert max(loads) - min(loads) <= max(sizes.values(), default=0)
    assert spread(dict(reversed(sizes.items())), world) == owners
    assert spread({0: 3, 1: 1, 2: 1, 3: 1}, 2) == {0: 0, 1: 1, 2: 1, 3: 1}


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[PlannedFile], list[LoadItem], int]:
    """Files, what is asked of them, and the number of ranks."""
    world = draw(worlds)
    files, items = [], []
    for number in range(draw(st.integers(1, 4))):
        tensors: dict[str, TensorInfo] = {}
        at = 0
        for i in range(draw(st.integers(0, 5))):
            code = draw(st.sampled_from(["U8", "F32", "C64", "BF16"]))
            shape = draw(st.lists(st.integers(0, 6), max_size=3))
            info = info_of(code, shape, at, f"{number}.{i}")
            tensors[info.name] = info
            at = info.end
        files.append(PlannedFile(f"file {number}", draw(st.integers(10, 99)), tensors))
        for name, info in tensors.items():
            if draw(st.booleans()):
                dims = st.none() | st.integers(0, len(info.shape) - 1) if info.shape else st.none()
                items.append(make_item(files[-1], number, name, draw(dims), world, "split"))
    return files, items, world


@FEWER
@given(requests(), st.integers(1, 400), st.randoms())
def test_every_rank_gets_every_byte_once(
    request: tuple[list[PlannedFile], list[LoadItem], int], limit: int, shuffler: object
) -> None:
    files, items, world = request
    plan = make_load_plan(items, world, limit)
    shuffled = list(items)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert make_load_plan(shuffled, world, limit) == plan
    assert plan.places.keys() == {item.info.name for item in items}
    batches = list(itertools.chain(*plan.rounds))
    moved = [item for batch in batches for item in batch.items]
    assert sorted(i.info.name for i in moved) == sorted(i.info.name for i in items if i.info.nbytes)
    # Batches follow one another in the buffer; rooms lie inside and apart.
    assert [batch.at for batch in batches] == [0, *itertools.accumulate(b.size for b in batches)][:-1]
    assert plan.size == sum(batch.size for batch in batches)
    for batch in batches:
        cursor = batch.at
        for item in batch.items:
            assert item == plan.places[item.info.name]
            assert item.at >= cursor
            assert item.at % 64 == 0
            assert item.way == batch.way
            cursor = item.at + item.cut.room
        assert cursor <= batch.at + batch.size
        assert (batch.source == -1) == (batch.way == "own")
    for batches_of_round in plan.rounds:
        for source in range(-1, world):
            read = [i.read for b in batches_of_round if b.source == source for i in b.items]
            assert len(read) <= 1 or sum(read) <= limit
    for item in items:
        info, placed, known = item.info, plan.places[item.info.name], files[item.file]
        for rank, share in enumerate(item.cut.shares):
            segments = own_segments(known, placed, rank)
            got = [s.file_at + k for s in segments for k in range(s.size)]
            assert got == [known.data_start + info.begin + b for b in bytes_of(item.cut, rank)]
            assert [s.at - placed.at for s in segments] == [i * share.run for i in range(len(segments))]
            end = placed.at + prod(share.shape) * BITS[info.dtype] // 8
            assert row(placed, rank) == (info.name, info.dtype, share.shape, placed.at, end)


@FEWER
@given(requests())
def test_files_are_read_by_one_rank_each_where_there_are_enough(
    request: tuple[list[PlannedFile], list[LoadItem], int],
) -> None:
    _, items, world = request
    sent = [item for item in items if item.way != "own"]
    owners = sources(sent, world)
    by_file: dict[int, set[int]] = {}
    for item, owner in zip(sent, owners, strict=True):
        by_file.setdefault(item.file, set()).add(owner)
    if len(by_file) >= world:
        assert all(len(ranks) == 1 for ranks in by_file.values())
    loads = [sum(i.read for i, o in zip(sent, owners, strict=True) if o == rank) for rank in range(world)]
    units = [sum(i.read for i in sent if i.file == f) for f in by_file]
    assert max(loads, default=0) - min(loads, default=0) <= max(units, default=0)
