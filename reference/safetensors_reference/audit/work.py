"""Groups files and models into batches and audits each batch.

Auditing never raises, whatever the files contain.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec

from ..files.names import FileInput, Folder
from ..files.reading import (
    LARGEST,
    Fetcher,
    Head,
    LocalFetcher,
    NotRead,
    NotReadError,
    Requests,
    Result,
    confirm_unchanged,
    listed,
    with_retries,
)
from ..files.stores import fetcher_of
from ..files.walk import MAX_MODEL_FOLDER
from ..header.json_text import Abandon
from ..header.model import Header, aligned_share, rows
from ..header.read import examine_source, explain_source
from ..model.index import INDEX_CAP, FaultCollector, read_index
from ..model.read import ABSENT, Shard, check_shards
from ..rules.faults import Fault
from ..text import quote, shorten, shown_name
from .results import MAX_TEXT, Profiles, Row, Tally, Writer, encode_row, now, unread_row

Thing = TypeVar("Thing")
SLOW_SECONDS = 10.0
"""Number of seconds without a new row after which unfinished files count as slow."""
LARGE_HEADER = 1 << 20
BLOCK = 8 << 20
_USUAL = bytes((0, 1))
MAX_KEYS = 64
MAX_PADDING = 4096
_VALID = Profiles("valid", "valid", "valid")
_INVALID = Profiles("invalid", "invalid", "invalid")
ShardRow = tuple[Row, "Header | None"]
"""Row and header of a shard. The header is None if it has faults or was not read."""


class Batch(NamedTuple):
    """Files that a worker audits in one call."""

    store: str | None
    items: tuple[FileInput, ...]
    # files that already have a row and are read again only to check their models
    known: frozenset[int] = frozenset()
    patient: bool = False  # whether to wait until slow files are finished

    def split(self) -> list[Batch]:
        if len(self.items) < 2:
            return []
        left = [item for number, item in enumerate(self.items) if number not in self.known]
        return [Batch(self.store, (item,), patient=self.patient) for item in left]


def make_batches(
    folders: Iterable[Folder], size: int, is_done: Callable[[FileInput], bool]
) -> Iterator[Batch]:
    """Yield batches of about ``size`` files, in which a folder with an index is normally kept whole."""
    store: str | None = None
    waiting: list[FileInput] = []
    for folder in folders:
        if waiting and folder.store != store:
            yield Batch(store, tuple(waiting))
            waiting = []
        store = folder.store
        if folder.has_index:
            yield from _folder_batches(folder, size, is_done)
            continue
        items = (item for item in folder.items if not is_done(item))
        while piece := list(islice(items, size - len(waiting))):
            waiting += piece
            if len(waiting) == size:
                yield Batch(store, tuple(waiting))
                waiting = []
    if waiting:
        yield Batch(store, tuple(waiting))


def _folder_batches(folder: Folder, size: int, is_done: Callable[[FileInput], bool]) -> Iterator[Batch]:
    items = tuple(folder.items)
    known = frozenset(number for number, item in enumerate(items) if is_done(item))
    # The headers of a larger folder may not fit in memory, so its shards are read again for each index.
    if len(items) > MAX_MODEL_FOLDER:
        left = [item for number, item in enumerate(items) if number not in known]
        yield from (Batch(folder.store, tuple(left[at : at + size])) for at in range(0, len(left), size))
    elif len(known) < len(items):
        yield Batch(folder.store, items, known)


class AuditOptions(NamedTuple):
    """Options of an audit."""

    at_once: int = 64  # maximum number of concurrent requests per worker
    data: bool = False
    alignment: int | None = None  # count the tensors aligned to this number of bytes
    before: Callable[[FileInput], object] | None = None  # called before each audit, used by tests


class BatchResult(NamedTuple):
    """Rows of a batch, and the files that are left for another one."""

    rows: bytes  # lines of JSON
    slow: tuple[FileInput, ...] = ()  # not finished after ``SLOW_SECONDS``
    left: tuple[FileInput, ...] = ()  # not started because the slow files took too long


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

    async def _ready(self, items: Sequence[FileInput]) -> BatchResult:
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

    async def _line(self, item: FileInput) -> bytes:
        return encode_row((await self._file(item))[0])  # keeps only one header in memory at a time

    async def _file(self, item: FileInput) -> ShardRow:
        try:
            if self.options.before is not None:
                self.options.before(item)
            if item.problem:
                raise NotReadError("unreadable", item.problem)
            row, header = await self._judged(item)
            return (await _read_data(self.fetcher, item, row, header) if self.options.data else row), header
        except NotReadError as err:
            return unread_row(item.address, err, *listed(item)), None
        except Exception as err:  # one file must not stop the audit
            error = NotReadError("unreadable", f"this program failed: {type(err).__name__}: {err}")
            return unread_row(item.address, error, *listed(item)), None

    async def _judged(self, item: FileInput) -> ShardRow:
        head = await self.fetcher.head(item)
        try:
            # Other requests must continue while a large header is checked.
            row, header = (
                await asyncio.to_thread(file_row, head, self.options.alignment)
                if head.held > LARGE_HEADER
                else file_row(head, self.options.alignment)
            )
            if row.verdict != "valid":
                await confirm_unchanged(self.fetcher, item, head)
                row = msgspec.structs.replace(row, requests=head.requests)
            return row, header
        finally:
            self.fetcher.budget.release(head.held)

    async def _index(self, item: FileInput) -> ModelIndex | NotReadError:
        try:
            head = await self.fetcher.head(item, lambda _, size: size if size <= INDEX_CAP else 0)
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
            n: {name: items[n].beside(name) for name in index.names}
            for n, index in indexes.items()
            if isinstance(index, ModelIndex)
        }
        known = {items[n].address for n in batch.known}
        # The index is unchanged, so check its model again only if one of the shards is new or has changed.
        for n in set(places) & batch.known:
            if all(place.address in known for place in places[n].values()):
                del indexes[n], places[n]
        named = {place.address: place for beside in places.values() for place in beside.values()}
        files = [n for n, item in enumerate(items) if not item.is_index]
        files = [n for n in files if n not in batch.known or items[n].address in named]

        async def shard_row(item: FileInput) -> ShardRow:
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
                shards = {name: seen[place.address] for name, place in places[n].items()}
                rows.append(model_row(index, shards))
            except NotReadError as err:
                rows.append(unread_row(items[n].address, err, *listed(items[n]), "model"))
        return rows


async def _read_data(fetcher: Fetcher, item: FileInput, row: Row, header: Header | None) -> Row:
    digest, odd, size = hashlib.sha256(), 0, row.size or 0
    requests = Requests(fetcher, item)
    tensors = () if header is None else rows(header.tensors)
    bools = sorted((begin, end) for _, dtype, _, begin, end in tensors if dtype == "BOOL")
    for at in range(0, size, BLOCK):
        count = min(BLOCK, size - at)
        held = await fetcher.budget.acquire(count) if fetcher.waits else 0
        try:
            part = await with_retries(partial(requests.part, at, count))
            if part.size != size or len(part.data) != count or part.tag not in (row.tag, item.tag, ""):
                text = "the file was replaced after its header was read"
                raise NotReadError("changed", text, row.requests, row.read)
            digest.update(part.data)
            low = at - (0 if header is None else header.data_start)  # the block's place in the data buffer
            for begin, end in bools:
                values = part.data[max(begin - low, 0) : max(end - low, 0)]
                odd += len(values.translate(None, _USUAL))
            bools = [span for span in bools if span[1] > low + count]
        finally:
            fetcher.budget.release(held)
    return msgspec.structs.replace(
        row,
        data_sha256=digest.hexdigest(),
        odd_bools=None if header is None else odd,
        requests=row.requests + requests.count,
        read=row.read + size,
    )


def file_row(head: Head, alignment: int | None = None) -> tuple[Row, Header | None]:
    """Return the row of a file and its header, which is None if the file has faults."""
    seen = examine_source(head, "hardened")
    header = seen.header
    profiles = _VALID
    faults: list[Fault] = []
    if header is None or seen.tolerated:
        profiles, faults = _judged(head, seen.faults, seen.tolerated)
    fields: dict[str, Any] = fault_fields(faults)
    if seen.looks_like is not None:
        fields["looks_like"] = seen.looks_like.kind
    length = int.from_bytes(head.data[:8], "little")
    if 0 < length <= len(head.data) - 8:
        digest = hashlib.sha256(memoryview(head.data)[8 : 8 + length]).hexdigest()
        fields |= {"header_bytes": length, "header_sha256": digest}
    if header is not None:
        entries = [(dtype, begin, end) for _, dtype, _, begin, end in rows(header.tensors)]
        ordered = all(before[1:] <= after[1:] for before, after in pairwise(entries))
        fields |= {
            "tensors": len(entries),
            "dtypes": _tallies((dtype, 1, end - begin) for dtype, begin, end in entries),
            "data_bytes": header.data_size,
            "metadata_keys": tuple(shorten(key, MAX_TEXT) for key in islice(header.metadata or (), MAX_KEYS)),
            "writer": _writer(head.data, header, ordered),
        }
        if alignment is not None:
            share = aligned_share(header, alignment)
            fields |= {"aligned_tensors": share.tensors, "aligned_bytes": share.bytes}
    row = Row(
        address=head.name,
        time=now(),
        verdict=profiles.verdict,
        kind="file",
        size=head.size,
        tag=head.tag,
        profiles=profiles,
        requests=head.requests,
        read=head.received,
        **fields,
    )
    return row, header


def fault_fields(faults: Iterable[Fault]) -> dict[str, Any]:
    faults = list(faults)
    return {
        "codes": tuple(sorted({f.code for f in faults})),
        "rules": tuple(sorted({f.rule for f in faults})),
        "faults": len(faults),
        "note": shown_name(faults[0].message, MAX_TEXT) if faults else "",
    }


def _judged(head: Head, faults: list[Fault], tolerated: list[Fault]) -> tuple[Profiles, list[Fault]]:
    # Profiles differ only where the rules leave a choice, so most files need only one explanation.
    if all(fault.choice is None for fault in (*faults, *tolerated)):
        return _INVALID, faults
    answers: dict[str, Literal["valid", "invalid"]] = {"hardened": "invalid" if faults else "valid"}
    every = dict.fromkeys([*faults, *tolerated])
    for profile in ("text", "official"):
        seen = explain_source(head, profile)
        answers[profile] = "invalid" if seen.faults else "valid"
        every.update(dict.fromkeys(seen.faults))
    return Profiles(**answers), list(every)


def _tallies(counts: Iterable[tuple[str, int, int]]) -> tuple[Tally, ...]:
    """Add up (dtype, tensors, bytes) by dtype."""
    tensors: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for dtype, number, size in counts:
        tensors[dtype] += number
        sizes[dtype] += size
    return tuple(Tally(dtype, tensors[dtype], sizes[dtype]) for dtype in sorted(tensors))


_FIELD = re.compile(rb'"(dtype|shape|data_offsets)"[ \t\r\n]*:[ \t\r\n]*(?:"[^"]*"|\[[^\]]*\])')


def _writer(data: bytes, header: Header, ordered: bool) -> Writer:
    end = header.data_start
    tail = data[max(8, end - MAX_PADDING) : end]
    fields, compact = "", b" " not in data[8:end].rstrip(b" ")
    at = data.find(b'"data_offsets"', 8)
    if at >= 0 and header.tensors:
        entry = data[data.rfind(b"{", 8, at) : data.find(b"}", at) + 1]
        fields = ",".join(name.decode() for name in _FIELD.findall(entry))
        compact = b'": ' not in entry and b", " not in entry
    form = (header.metadata or {}).get("format")
    return Writer(
        fields,
        len(tail) - len(tail.rstrip(b" ")),
        min(end & -end, 4096),
        compact,
        ordered,
        None if form is None else shorten(form, MAX_TEXT),
    )


class ModelIndex:
    """An index that was read without its shards. ``text`` is None if the index has no usable weight_map."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.findings = FaultCollector()
        self.text = read_index(head, self.findings)
        head.data = b""  # keeping the text of many indexes would use too much memory

    @property
    def names(self) -> list[str]:
        return [] if self.text is None else [name for name, m in self.text.shards.items() if m.usable]


def model_row(index: ModelIndex, shards: Mapping[str, ShardRow]) -> Row:
    """Return the row of a model; ``shards`` contains all that may be opened, including missing ones."""
    for name, (row, _) in shards.items():
        if row.profiles is None and row.verdict != "missing":
            note = f"shard {quote(name)}: {row.note}"
            raise NotReadError(cast("NotRead", row.verdict), note, index.head.requests, index.head.received)
    faults = _index_faults(index, shards)
    rows = [row for row, _ in shards.values()]
    answers = [row.profiles for row in rows if row.profiles is not None]
    profiles = Profiles(
        *(
            "invalid" if faults or any(getattr(seen, name) == "invalid" for seen in answers) else "valid"
            for name in Profiles.__struct_fields__
        )
    )
    about = fault_fields(faults)
    for part in ("codes", "rules"):
        about[part] = tuple(sorted({*about[part], *(word for row in rows for word in getattr(row, part))}))
    about["faults"] = len(faults) + sum(row.faults for row in rows)
    about["note"] = about["note"] or next((row.note for row in rows if row.codes), "")
    head = index.head
    if sum(row.data_bytes or 0 for row in rows) > LARGEST:  # servers may report false sizes
        text = "the sizes of the shards add up to an impossible total"
        raise NotReadError("unreachable", text, head.requests)
    sizes = [row.data_bytes for row in rows if row.data_bytes is not None]
    return Row(
        head.name,
        now(),
        profiles.verdict,
        "model",
        head.size,
        head.tag,
        profiles=profiles,
        tensors=None if index.text is None else len(index.text.weight_map),
        dtypes=_tallies((tally.dtype, tally.tensors, tally.bytes) for row in rows for tally in row.dtypes),
        data_bytes=sum(sizes) if len(sizes) == len(rows) and index.text is not None else None,
        shards=None if index.text is None else len(index.text.shards),
        requests=head.requests,
        read=head.received,
        looks_like="" if index.findings.looks_like is None else index.findings.looks_like.kind,
        **about,
    )


def _index_faults(index: ModelIndex, shards: Mapping[str, ShardRow]) -> list[Fault]:
    """Return the faults of an index, except those inside its shards, which appear in the shards' rows."""

    def lookup(name: str) -> Shard:
        row, header = shards[name]
        return ABSENT if row.verdict == "missing" else Shard(header)

    if index.text is not None:
        with suppress(Abandon):  # there are too many faults, so the rest is omitted
            check_shards(index.text, lookup, index.findings)
    return sorted(index.findings.faults, key=lambda fault: fault.start)
