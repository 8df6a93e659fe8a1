"""Who reads what, when, and where it goes, worked out alike on every rank before any byte is read.

Tensors go three ways. ``own``: each rank reads what it needs itself, without communication. ``broadcast``:
one rank reads and all get the same. ``scatter``: one rank reads and each gets its slice; this takes the place
of ``own`` where the runs of a slice are so short that a system call for each would cost more than sending.

Every rank has the same layout of its buffer, with room for the largest share of each tensor, so that one
collective moves many tensors. Work comes in rounds, which bounds what a rank reads for others.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ...header.model import Row, TensorInfo
from ..plan import Segment
from .cut import Cut, Uneven, cut_along, cut_whole

Way = Literal["own", "broadcast", "scatter"]
ROUND_BYTES = 256 << 20
"""Bytes that one rank reads in a round, or one tensor if that is larger."""
SHORTEST_RUN = 16 << 10
"""Runs from this size in bytes on are read by the rank that wants them. With files in the page cache that is
faster from about 4 KiB on; the rest is for disks, where reads of single pages are slow."""
PLACE = 64
"""Every tensor begins at a multiple of this in the buffer."""


class Known(NamedTuple):
    """What a plan needs of a file: its name for errors, where its data begin, and the tensors it may load."""

    name: str
    data_start: int
    tensors: Mapping[str, TensorInfo]


class Item(NamedTuple):
    """A tensor to be loaded: number of its file, cut, way, and first byte of its room in the buffer."""

    info: TensorInfo
    file: int
    cut: Cut
    way: Way
    at: int = 0

    @property
    def read(self) -> int:
        """Bytes that a rank reads for it, at most."""
        return self.cut.room if self.way == "own" else self.info.nbytes


class Batch(NamedTuple):
    """Tensors that one collective moves: buffer bytes ``[at, at + size)``, small gaps included."""

    way: Way
    source: int
    at: int
    size: int
    items: list[Item]


class LoadPlan(NamedTuple):
    """A load.

    Attributes:
        rounds: the batches of each round, in the order of their collectives. A batch of way ``own`` is moved
            by none, and its source is -1.
        places: tensor name -> its item.
        size: bytes of the buffer, on every rank.
    """

    rounds: list[list[Batch]]
    places: dict[str, Item]
    size: int


def make_item(file: Known, number: int, name: str, dim: int | None, world: int, uneven: Uneven) -> Item:
    """Return the item of one tensor, without its place. Raises AccessError as ``cut_along`` does."""
    info = file.tensors[name]
    if dim is None:
        cut = cut_whole(info, world)
        return Item(info, number, cut, "own" if world == 1 else "broadcast")
    cut = cut_along(file.name, info, dim, world, uneven)
    alone = cut.runs == 1 or cut.shares[0].run >= SHORTEST_RUN
    return Item(info, number, cut, "own" if alone else "scatter")


def make_load_plan(items: Iterable[Item], world: int, limit: int = ROUND_BYTES) -> LoadPlan:
    """Plan a load of ``items`` among ``world`` ranks. The order of the items does not matter.

    Args:
        items: what to load, each name once.
        world: number of ranks.
        limit: bytes that one rank reads in a round; a larger tensor has a round of its own.
    """
    ordered = sorted(items, key=lambda item: (item.file, item.info.begin, item.info.end, item.info.name))
    places = {item.info.name: item for item in ordered if not item.read}
    ordered = [item for item in ordered if item.read]
    queues = [deque(item for item in ordered if item.way == "own")]
    queues += [deque[Item]() for _ in range(world)]
    sent = [item for item in ordered if item.way != "own"]
    for item, source in zip(sent, sources(sent, world), strict=True):
        queues[source + 1].append(item)
    rounds: list[list[Batch]] = []
    cursor = 0
    while any(queues):
        batches: list[Batch] = []
        for source, queue in enumerate(queues, -1):
            taken = _take(queue, limit)
            for way in ("own", "broadcast", "scatter"):
                batch = _place(way, source, [item for item in taken if item.way == way], cursor)
                if batch.items:
                    cursor += batch.size
                    batches.append(batch)
                    places.update((item.info.name, item) for item in batch.items)
        rounds.append(batches)
    return LoadPlan(rounds, places, cursor)


def _take(queue: deque[Item], limit: int) -> list[Item]:
    """Take items from the front of a queue, for ``limit`` bytes or one."""
    taken: list[Item] = []
    while queue and (not taken or queue[0].read <= limit):
        item = queue.popleft()
        taken.append(item)
        limit -= item.read
    return taken


def _place(way: Way, source: int, items: Iterable[Item], at: int) -> Batch:
    placed: list[Item] = []
    cursor = at
    for item in items:
        placed.append(item._replace(at=cursor))
        cursor += item.cut.room + -item.cut.room % PLACE
    return Batch(way, source, at, cursor - at, placed)


def sources(items: Sequence[Item], world: int) -> list[int]:
    """Return which rank reads each item for all: whole files, or single tensors where files are too few.

    The largest comes first, and each goes to the rank that has the fewest bytes by then.
    """
    by_file = len({item.file for item in items}) >= world
    sizes: dict[int, int] = {}
    for number, item in enumerate(items):
        key = item.file if by_file else number
        sizes[key] = sizes.get(key, 0) + item.read
    owners = spread(sizes, world)
    return [owners[item.file if by_file else number] for number, item in enumerate(items)]


def spread(sizes: Mapping[int, int], world: int) -> dict[int, int]:
    """Return key -> rank for things of given sizes, so that no rank has much more than another."""
    loads = [(0, rank) for rank in range(world)]
    owners: dict[int, int] = {}
    for key, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        load, rank = loads[0]
        owners[key] = rank
        heapq.heapreplace(loads, (load + size, rank))
    return owners


def own_segments(file: Known, item: Item, rank: int) -> list[Segment]:
    """Return where a rank's share of an item lies in the file and goes in the buffer."""
    share = item.cut.shares[rank]
    start = file.data_start + item.info.begin + share.first
    if not share.run:
        return []
    return [
        Segment(start + i * item.cut.step, item.at + i * share.run, share.run) for i in range(item.cut.runs)
    ]


def row(item: Item, rank: int) -> Row:
    """Return the view that a rank has of an item in the buffer."""
    share = item.cut.shares[rank]
    return item.info.name, item.info.dtype, share.shape, item.at, item.at + item.cut.runs * share.run
