"""Executes a load plan. The reads of one round overlap with the collectives of the previous round.

Between rounds, all ranks report their results. If a read fails on any rank, all ranks finish the pending
collectives and start no new ones, so the process group can still be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import gcd
from time import monotonic
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ...arrays.buffers import check_unchanged
from ...arrays.torch import WORDS
from ...rules.errors import SafetensorsError, reason
from ...source import PathSource
from ..engine import DeviceError, Engine, device_errors
from ..load import allocate, ready, transfer
from ..plan import Segment
from ..readers import PlainReader
from ..transfer import Target
from .consensus import NEWS_INTERVAL, RankSync
from .plan import CollectiveBatch, LoadItem, LoadPlan, PlannedFile, aligned, own_segments

COLLECTIVE_PAUSE = 5e-4
"""Seconds between checks for a completed collective. Checks are cheap, and a round can take only 10 ms."""


class OpenFile(NamedTuple):
    """An open file, the properties that the planner uses, and a digest of the header and file size."""

    source: PathSource
    known: PlannedFile
    digest: str


class LoadRounds:
    """Runs one load on one rank."""

    def __init__(
        self,
        files: Sequence[OpenFile],
        plan: LoadPlan,
        engine: Engine,
        call: RankSync,
        threads: int | None,
        chunk: int | None,
    ) -> None:
        self._files, self._plan, self._engine, self._call = files, plan, engine, call
        self._threads, self._chunk = threads, chunk
        self._buffer: torch.Tensor | None = None
        self._whole: list[tuple[CollectiveBatch, torch.Tensor]] = []
        self._blocks: list[torch.Tensor] = []

    def alone(self) -> torch.Tensor:
        self._allocate()
        for number in range(len(self._plan.rounds)):
            self._read(number)
        return self._take()

    def together(self) -> torch.Tensor:
        """Load with the other ranks. Raises RankError; a failed collective makes the group unusable."""
        count = len(self._plan.rounds)
        gate = self._call.gate
        self._call.agree(gate.attempt(self._begin))
        for number in range(count):
            works = self._start(number)
            error = gate.attempt(self._read, number + 1) if number + 1 < count else None
            self._finish(works)
            works.clear()  # frees the blocks of this round before those of the next round are allocated
            self._call.agree(error or gate.attempt(self._divide))
        return self._take()

    def _allocate(self) -> None:
        names = f"{len(self._plan.places):,} tensors of {self._files[0].source.name}"
        self._buffer = allocate(names, self._plan.size, self._engine)

    def _begin(self) -> None:
        self._allocate()
        if self._plan.rounds:
            self._read(0)
            self._divide()

    def _take(self) -> torch.Tensor:
        assert self._buffer is not None
        buffer, self._buffer = self._buffer, None
        return buffer

    def _read(self, number: int) -> None:
        assert self._buffer is not None
        mine = [b for b in self._plan.rounds[number] if b.source in (-1, self._call.rank)]
        targets: list[Target] = []
        for batch in mine:
            if batch.way == "scatter":
                whole = self._room(batch, "tensors to cut", sum(aligned(i.info.nbytes) for i in batch.items))
                self._whole.append((batch, whole))
                targets += self._targets(batch.items, whole, self._segments(batch.items))
            else:
                rank = self._call.rank
                shares = [own_segments(self._files[i.file].known, i, rank) for i in batch.items]
                targets += self._targets(batch.items, self._buffer, shares)
        ready(self._engine)
        transfer(targets, self._engine, self._threads, self._chunk)
        for file in {item.file for batch in mine for item in batch.items}:
            check_unchanged(self._files[file].source)

    def _divide(self) -> None:
        """Cut a block for each rank from the tensors that it scatters in the next round."""
        while self._whole:
            batch, whole = self._whole.pop(0)
            blocks = self._room(batch, "slices to send", self._call.world * batch.size)
            problem = f"cutting tensors on {self._engine.device} failed"
            with device_errors(problem, (RuntimeError, MemoryError)):
                _cut(batch, whole, blocks.view(self._call.world, batch.size))
            self._blocks.append(blocks)

    def _room(self, batch: CollectiveBatch, purpose: str, size: int) -> torch.Tensor:
        return allocate(f"{self._files[batch.items[0].file].source.name}: {purpose}", size, self._engine)

    def _segments(self, items: Iterable[LoadItem]) -> list[list[Segment]]:
        out: list[list[Segment]] = []
        at = 0
        for item in items:
            start = self._files[item.file].known.data_start + item.info.begin
            out.append([Segment(start, at, item.info.nbytes)])
            at += aligned(item.info.nbytes)
        return out

    def _targets(
        self, items: Sequence[LoadItem], memory: torch.Tensor, segments: Sequence[Sequence[Segment]]
    ) -> list[Target]:
        # Chunks include the gaps between items. If a target spanned items from another file, its chunks would
        # overwrite these items.
        out: list[Target] = []
        pairs = zip(items, segments, strict=True)
        for number, group in groupby(pairs, key=lambda pair: pair[0].file):
            joined = [segment for _, parts in group for segment in parts]
            out.append(Target(PlainReader(self._files[number].source), joined, memory))
        return out

    def _start(self, number: int) -> list[Any]:
        assert self._buffer is not None
        works: list[Any] = []
        blocks = iter(self._blocks)
        self._blocks = []
        group = self._call.group
        try:
            for batch in self._plan.rounds[number]:
                region = self._buffer[batch.at : batch.at + batch.size]
                to = {"group": group, "group_src": batch.source, "async_op": True}
                if batch.way == "broadcast":
                    works.append(dist.broadcast(region, **to))
                elif batch.way == "scatter":
                    mine = batch.source == self._call.rank
                    parts = list(next(blocks).view(self._call.world, batch.size).unbind()) if mine else None
                    works.append(dist.scatter(region, parts, **to))
        except RuntimeError as err:
            self._raise_failure(err)
        return works

    def _finish(self, works: Sequence[Any]) -> None:
        try:
            if not self._call.wait(_until_done(works, self._call), self._call.timeout, COLLECTIVE_PAUSE):
                self._raise_failure(TimeoutError(f"not finished within {self._call.timeout:g} s"))
            for work in works:
                work.wait()
        except SafetensorsError:
            raise
        except RuntimeError as err:
            self._raise_failure(err)

    def _raise_failure(self, err: Exception) -> None:
        blamed = self._call.give_up(err)
        if blamed is not None:
            raise blamed from err
        raise DeviceError(f"a collective operation failed ({reason(err)})") from err


def _until_done(works: Sequence[Any], call: RankSync) -> Callable[[], bool]:
    next_check = monotonic() + NEWS_INTERVAL

    def done() -> bool:
        nonlocal next_check
        if all(work.is_completed() for work in works):
            return True
        if monotonic() > next_check:
            next_check = monotonic() + NEWS_INTERVAL
            if call.has_broken_rank():
                raise RuntimeError("another rank gave up")
        return False

    return done


def _cut(batch: CollectiveBatch, whole: torch.Tensor, blocks: torch.Tensor) -> None:
    at = 0
    for item in batch.items:
        cut = item.cut
        # Copy in the widest words that divide all sizes, because copying single bytes is slow.
        width = gcd(8, cut.step, *(n for share in cut.shares for n in (share.first, share.run)))
        rows = whole[at : at + item.info.nbytes].view(WORDS[width]).view(cut.runs, -1)
        for rank, share in enumerate(cut.shares):
            if share.run:
                low = item.at - batch.at
                into = blocks[rank, low : low + cut.runs * share.run].view(WORDS[width])
                first = share.first // width
                into.view(cut.runs, -1).copy_(rows[:, first : first + share.run // width])
        at += aligned(item.info.nbytes)
