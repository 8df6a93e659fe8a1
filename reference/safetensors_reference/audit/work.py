"""Audits one batch of files and returns encoded rows. Never raises, whatever the files contain."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote as percent

import msgspec

from ..files.reading import LocalFetcher, Result, confirm_unchanged, listed
from ..files.stores import fetcher_of
from .batches import AuditInput
from .data import read_data
from .models import ModelIndex, model_row, whole_index
from .row import NotReadError, Row, encode_row, file_row, unread_row

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from ..files.reading import Fetcher
    from .batches import Batch
    from .models import ShardRow

Thing = TypeVar("Thing")
SLOW_SECONDS = 10.0
"""Seconds without a new row after which unfinished files count as slow."""
LARGE_HEADER = 1 << 20


class AuditOptions(NamedTuple):
    """Options of an audit."""

    at_once: int = 64  # maximum number of concurrent requests per worker
    data: bool = False
    before: Callable[[AuditInput], object] | None = None  # called before each audit, used by tests


class BatchResult(NamedTuple):
    """Result of one batch.

    ``rows`` are JSON lines. ``slow`` are the files unfinished after ``SLOW_SECONDS``, and ``left`` are
    the files that were not started because of them.
    """

    rows: bytes
    slow: tuple[AuditInput, ...] = ()
    left: tuple[AuditInput, ...] = ()


def audit_batch(batch: Batch, options: AuditOptions) -> BatchResult:
    fetcher, loop = (LocalFetcher(), None) if batch.store is None else fetcher_of(batch.store)
    work = _BatchAuditor(fetcher, options).rows(batch)
    if loop is not None:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    # Headers contain no reference cycles, so garbage collection would only waste time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        work.send(None)  # local files never wait, so no event loop is needed
    except StopIteration as end:
        looked: BatchResult = end.value
        return looked
    finally:
        if collecting:
            gc.enable()
    raise AssertionError


class _BatchAuditor:
    def __init__(self, fetcher: Fetcher, options: AuditOptions) -> None:
        self.fetcher, self.options = fetcher, options

    async def rows(self, batch: Batch) -> BatchResult:
        if any(item.is_index for item in batch.items):
            return BatchResult(b"".join(map(encode_row, await self._with_models(batch))))
        if batch.patient or not self.fetcher.waits:
            return BatchResult(b"".join(await self._all(self._line, batch.items)))
        return await self._ready(batch.items)

    async def _ready(self, items: Sequence[AuditInput]) -> BatchResult:
        clock = asyncio.get_running_loop().time
        lines: list[bytes | None] = [None] * len(items)
        begun: set[int] = set()
        latest = clock()

        async def lookup(number: int) -> None:
            nonlocal latest
            begun.add(number)
            lines[number] = await self._line(items[number])
            latest = clock()

        work = asyncio.ensure_future(self._all(lookup, range(len(items))))
        while not work.done() and clock() - latest < SLOW_SECONDS:
            await asyncio.wait([work], timeout=latest + SLOW_SECONDS - clock())
        if not work.done():
            work.cancel()
            await asyncio.wait([work])
        without = [number for number, line in enumerate(lines) if line is None]
        return BatchResult(
            b"".join(line for line in lines if line is not None),
            tuple(items[number] for number in without if number in begun),
            tuple(items[number] for number in without if number not in begun),
        )

    async def _all(
        self, lookup: Callable[[Thing], Coroutine[Any, Any, Result]], items: Iterable[Thing]
    ) -> list[Result]:
        if not self.fetcher.waits:
            return [await lookup(item) for item in items]
        room = asyncio.Semaphore(self.options.at_once)

        async def one(item: Thing) -> Result:
            async with room:
                return await lookup(item)

        return await asyncio.gather(*map(one, items))

    async def _line(self, item: AuditInput) -> bytes:
        return encode_row((await self._file(item))[0])  # keeps only one header at a time

    async def _file(self, item: AuditInput) -> ShardRow:
        try:
            if self.options.before is not None:
                self.options.before(item)
            if item.problem:
                raise NotReadError("unreadable", item.problem)
            row, header = await self._judged(item)
            return (await read_data(self.fetcher, item, row, header) if self.options.data else row), header
        except NotReadError as err:
            return unread_row(item.address, err, *listed(item)), None
        except Exception as err:  # one file must not stop the audit
            error = NotReadError("unreadable", f"this program failed: {type(err).__name__}: {err}")
            return unread_row(item.address, error, *listed(item)), None

    async def _judged(self, item: AuditInput) -> ShardRow:
        head = await self.fetcher.head(item)
        try:
            # Other requests must continue while a large header is checked.
            row, header = (
                await asyncio.to_thread(file_row, head) if head.held > LARGE_HEADER else file_row(head)
            )
            if row.verdict != "valid":
                await confirm_unchanged(self.fetcher, item, head)
                row = msgspec.structs.replace(row, requests=head.requests)
            return row, header
        finally:
            self.fetcher.budget.release(head.held)

    async def _index(self, item: AuditInput) -> ModelIndex | NotReadError:
        try:
            head = await self.fetcher.head(item, whole_index)
            try:
                return ModelIndex(head)
            finally:
                self.fetcher.budget.release(head.held)
        except NotReadError as err:
            return err

    async def _with_models(self, batch: Batch) -> list[Row]:
        items = batch.items
        numbers = [n for n, item in enumerate(items) if item.is_index]
        indexes = dict(zip(numbers, await self._all(self._index, [items[n] for n in numbers]), strict=True))
        places = {
            n: {name: _beside(items[n], name) for name in index.names}
            for n, index in indexes.items()
            if isinstance(index, ModelIndex)
        }
        known = {items[n].address for n in batch.known}
        # the index is unchanged, so check it again only if one of its shards is new
        for n in set(places) & batch.known:
            if all(place.address in known for place in places[n].values()):
                del indexes[n], places[n]
        named = {place.address: place for beside in places.values() for place in beside.values()}
        files = [n for n, item in enumerate(items) if not item.is_index]
        files = [n for n in files if n not in batch.known or items[n].address in named]

        async def shard_row(item: AuditInput) -> ShardRow:
            row, header = await self._file(item)
            return row, header if item.address in named else None  # keeps only the headers that models need

        results = dict(zip(files, await self._all(shard_row, [items[n] for n in files]), strict=True))
        rows = [row for n, (row, _) in results.items() if n not in batch.known]
        seen = {items[n].address: shard for n, shard in results.items()}
        away = [place for address, place in named.items() if address not in seen]
        seen.update(zip((p.address for p in away), await self._all(self._file, away), strict=True))
        for n, index in indexes.items():
            try:
                if isinstance(index, NotReadError):
                    raise index
                rows.append(
                    model_row(index, {name: seen[place.address] for name, place in places[n].items()})
                )
            except NotReadError as err:
                rows.append(unread_row(items[n].address, err, *listed(items[n]), "model"))
        return rows


def _beside(index: AuditInput, name: str) -> AuditInput:
    first, chained, rest = index.address.partition("::")
    web = "://" in index.path
    folder, inside = first.rpartition("/"), index.path.rpartition("/")
    last = percent(name) if web and first == index.path else name
    path = f"{inside[0]}{inside[1]}{percent(name) if web else name}" if index.path else ""
    return AuditInput(f"{folder[0]}{folder[1]}{last}{chained}{rest}", path)
