"""Plans a load by several ranks. Every rank computes the same cuts, reads and buffer positions.

A slice along dimension ``dim`` consists of runs of bytes, one for each combination of indices in the
dimensions before it.

There are three ways to load a tensor. ``own``: each rank reads its part without communication. ``broadcast``:
one rank reads the tensor and sends it to all others. ``scatter``: one rank reads the tensor and sends each
rank its slice. ``scatter`` is used if the runs are so short that a system call for each run would cost more
than sending the data.

Buffers have the same layout on every rank, with enough space for the largest share of each tensor. One
collective can therefore transfer many tensors. Tensors are loaded in rounds, which limits the number of bytes
that a rank reads for other ranks at a time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from operator import index
from typing import Literal, NamedTuple

from ...header.model import TensorInfo, TensorRow
from ...rules.errors import AccessError
from ...text import quote, shown
from ..plan import Segment

Uneven = Literal["refuse", "split"]
Way = Literal["own", "broadcast", "scatter"]
ROUND_BYTES = 256 << 20
MIN_RUN = 16 << 10
"""Least bytes in a run for which each rank reads its own part. On disks, shorter reads are slow."""
ALIGNMENT = 64


class Share(NamedTuple):
    """One rank's share of a tensor: shape, position of the first run in the tensor, and bytes per run."""

    shape: tuple[int, ...]
    first: int
    run: int


class Cut(NamedTuple):
    """Shares of a tensor, one for each rank: runs per share, and bytes from one run's start to the next."""

    runs: int
    step: int
    shares: tuple[Share, ...]

    @property
    def room(self) -> int:
        return self.runs * self.shares[0].run


def aligned(size: int) -> int:
    """Round a size in bytes up to a multiple of the alignment of tensors in buffers."""
    return size + -size % ALIGNMENT


def bounds(size: int, world: int) -> list[tuple[int, int]]:
    """Cut a dimension in the same way as ``torch.chunk``. Return (first index, end) for each rank."""
    most = -(-size // world)
    return [(min(rank * most, size), min((rank + 1) * most, size)) for rank in range(world)]


def cut_along(file: str, info: TensorInfo, dim: int, world: int, uneven: Uneven = "refuse") -> Cut:
    """Divide a tensor among ``world`` ranks. Raises AccessError (API-07, API-08) if this is impossible."""
    where = f"{file}: tensor {quote(info.name)}"
    axis = _axis(where, info, dim)
    size = info.shape[axis]
    if size % world and uneven != "split":
        text = f"dimension {axis} of size {size:,} cannot be cut evenly among {world:,} ranks"
        hint = "uneven='split' cuts it in the same way as torch.chunk"
        raise AccessError(f"{where}: {text}; {hint}", "API_SLICE_UNSUPPORTED", "API-07")
    inner = prod(info.shape[axis + 1 :]) * info.bits
    # If there are no elements, there are no bytes to cut.
    runs = prod(info.shape[:axis]) if info.nbytes else 1
    if world == 1:
        return Cut(1, info.nbytes, (Share(info.shape, 0, info.nbytes),))
    row = size * inner if info.nbytes else 0
    shares = []
    for begin, end in bounds(size, world):
        first, bits = (begin * inner, (end - begin) * inner) if info.nbytes else (0, 0)
        if first % 8 or bits % 8 or (runs > 1 and row % 8):
            text = f"cutting {info.dtype} {list(info.shape)} along dimension {axis} among {world:,} ranks"
            reason = "would split bytes that several elements share"
            raise AccessError(f"{where}: {text} {reason}", "API_SLICE_UNSUPPORTED", "API-08")
        shape = (*info.shape[:axis], end - begin, *info.shape[axis + 1 :])
        shares.append(Share(shape, first // 8, bits // 8))
    return Cut(runs, row // 8, tuple(shares))


def _axis(where: str, info: TensorInfo, dim: int) -> int:
    # In Python, True is an integer, but as a dimension it is a mistake.
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise AccessError(f"{where}: a dimension must be a number, not {shown(dim)}")
    number = index(dim)
    rank = len(info.shape)
    if not rank:
        text = f"{where}: a scalar has no dimension to cut; get_tensor returns it on every rank"
        raise AccessError(text, "API_SLICE_OUT_OF_RANGE", "API-07")
    if not -rank <= number < rank:
        text = f"{where}: there is no dimension {number} in the shape {list(info.shape)}"
        raise AccessError(text, "API_SLICE_OUT_OF_RANGE", "API-07")
    return number % rank


class PlannedFile(NamedTuple):
    """Properties of a file that the planner uses: its name (for errors), data start and tensors."""

    name: str
    data_start: int
    tensors: Mapping[str, TensorInfo]


class LoadItem(NamedTuple):
    """A tensor to load: its file number, its cut, the way to load it, and its position in the buffer."""

    info: TensorInfo
    file: int
    cut: Cut
    way: Way
    at: int = 0

    @property
    def read(self) -> int:
        return self.cut.room if self.way == "own" else self.info.nbytes


class CollectiveBatch(NamedTuple):
    """Tensors that one collective transfers, in the buffer bytes ``[at, at + size)`` with small gaps."""

    way: Way
    source: int
    at: int
    size: int
    items: list[LoadItem]


class LoadPlan(NamedTuple):
    """Batches of each round (source -1 without a collective), items by tensor name, and buffer size."""

    rounds: list[list[CollectiveBatch]]
    places: dict[str, LoadItem]
    size: int


def make_item(
    file: PlannedFile, number: int, name: str, dim: int | None, world: int, uneven: Uneven
) -> LoadItem:
    info = file.tensors[name]
    if dim is None:
        cut = Cut(1, info.nbytes, (Share(info.shape, 0, info.nbytes),) * world)
        return LoadItem(info, number, cut, "own" if world == 1 else "broadcast")
    cut = cut_along(file.name, info, dim, world, uneven)
    alone = cut.runs == 1 or cut.shares[0].run >= MIN_RUN
    return LoadItem(info, number, cut, "own" if alone else "scatter")


def make_load_plan(items: Iterable[LoadItem], world: int, limit: int = ROUND_BYTES) -> LoadPlan:
    ordered = sorted(items, key=lambda item: (item.file, item.info.begin, item.info.end, item.info.name))
    places = {item.info.name: item for item in ordered if not item.read}
    ordered = [item for item in ordered if item.read]
    queues = [deque(item for item in ordered if item.way == "own")]
    queues += [deque[LoadItem]() for _ in range(world)]
    sent = [item for item in ordered if item.way != "own"]
    for item, source in zip(sent, sources(sent, world), strict=True):
        queues[source + 1].append(item)
    rounds: list[list[CollectiveBatch]] = []
    cursor = 0
    while any(queues):
        batches: list[CollectiveBatch] = []
        for source, queue in enumerate(queues, -1):
            taken: list[LoadItem] = []
            room = limit
            while queue and (not taken or queue[0].read <= room):
                taken.append(queue.popleft())
                room -= taken[-1].read
            for way in ("own", "broadcast", "scatter"):
                batch = _place(way, source, [item for item in taken if item.way == way], cursor)
                if batch.items:
                    cursor += batch.size
                    batches.append(batch)
                    places.update((item.info.name, item) for item in batch.items)
        rounds.append(batches)
    return LoadPlan(rounds, places, cursor)


def _place(way: Way, source: int, items: Iterable[LoadItem], at: int) -> CollectiveBatch:
    placed: list[LoadItem] = []
    cursor = at
    for item in items:
        placed.append(item._replace(at=cursor))
        cursor += aligned(item.cut.room)
    return CollectiveBatch(way, source, at, cursor - at, placed)


def sources(items: Sequence[LoadItem], world: int) -> list[int]:
    """Return the rank that reads each item, or all items of a file if there are enough files."""
    by_file = len({item.file for item in items}) >= world
    sizes: dict[int, int] = {}
    for number, item in enumerate(items):
        key = item.file if by_file else number
        sizes[key] = sizes.get(key, 0) + item.read
    owners = spread(sizes, world)
    return [owners[item.file if by_file else number] for number, item in enumerate(items)]


def spread(sizes: Mapping[int, int], world: int) -> dict[int, int]:
    """Assign the largest sizes first, each to the rank that has the fewest bytes so far."""
    loads = [(0, rank) for rank in range(world)]
    owners: dict[int, int] = {}
    for key, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        load, rank = loads[0]
        owners[key] = rank
        heapq.heapreplace(loads, (load + size, rank))
    return owners


def own_segments(file: PlannedFile, item: LoadItem, rank: int) -> list[Segment]:
    share = item.cut.shares[rank]
    start = file.data_start + item.info.begin + share.first
    if not share.run:
        return []
    return [
        Segment(start + i * item.cut.step, item.at + i * share.run, share.run) for i in range(item.cut.runs)
    ]


def row(item: LoadItem, rank: int) -> TensorRow:
    share = item.cut.shares[rank]
    return item.info.name, item.info.dtype, share.shape, item.at, item.at + item.cut.runs * share.run
