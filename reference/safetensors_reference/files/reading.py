"""Reads the beginning of a file with one local read, or with at most two range requests.

A fetcher reads ranges of files in one store. Its methods are coroutines because an audit reads many files at
the same time. Code that is not asynchronous uses the same fetchers through ``RemoteSource`` in ``stores``.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from ..header.read import framing_fault
from ..rules.errors import PortableError
from ..source import PathSource, UnreadableError
from .names import FileInput
from .neighbours import describe_missing

Result = TypeVar("Result")
Need = Callable[[bytes, int], int]
"""Function that receives the first bytes and the size of a file and returns how many bytes to read."""
FIRST = 64 << 10
"""Bytes in the first request. Most headers are shorter, so a larger request would usually fetch data."""
LOCAL_FIRST = 32 << 10
ATTEMPTS = 5
FIRST_WAIT = 0.1
LONGEST_WAIT = 30.0
"""Maximum number of seconds between two attempts, regardless of what the server requests."""
SECONDS = 30.0
"""Maximum wait in seconds for a response, plus the time that its bytes take at ``MIN_BYTES_PER_SECOND``."""
MIN_BYTES_PER_SECOND = 256 << 10
FILE_SECONDS = 600.0
MEMORY_BUDGET = 128 << 20
"""Maximum number of bytes in flight in one process, not counting the first request of each file."""
LARGEST = (1 << 63) - 1
"""Largest file size that a server or store may report. Results of an audit cannot store larger numbers."""
NotRead = Literal["missing", "refused", "unreachable", "changed", "no-ranges", "unreadable", "kills-worker"]


class NotReadError(PortableError):
    """Raised if the validity of a file cannot be determined. ``verdict`` gives the reason."""

    def __init__(self, verdict: NotRead, note: str, requests: int = 0, received: int = 0) -> None:
        super().__init__(note)
        self.verdict, self.note, self.requests, self.received = verdict, note, requests, received


@dataclass(slots=True)
class Head:
    """The beginning of a file: its length prefix and header, or less if the header length is impossible."""

    name: str
    size: int
    data: bytes
    tag: str = ""
    requests: int = 1
    received: int = 0
    held: int = 0  # bytes reserved in the memory budget

    def read(self, start: int, count: int) -> bytes:
        if start + count > len(self.data):
            raise UnreadableError(f"{self.name}: byte {start + count - 1:,} was not fetched")
        return self.data[start : start + count]


def time_for(count: int) -> float:
    return SECONDS + count / MIN_BYTES_PER_SECOND


class TransientError(NotReadError):
    """Raised for a failure that a retry may fix."""

    after = 0.0  # seconds that the server asks clients to wait


class FileRange(NamedTuple):
    """A range of a file; ``size`` and ``tag`` describe the whole file."""

    data: bytes
    size: int
    tag: str


def bytes_needed(data: bytes, size: int) -> int:
    """Return the size of the length prefix and header, or of the prefix alone if the length is impossible."""
    prefix = data[:8]
    return min(8, size) if framing_fault(prefix, size) else 8 + int.from_bytes(prefix, "little")


def listed(item: FileInput) -> tuple[int | None, str]:
    """Return the size and tag of a file from its listing or the file system, without reading the file."""
    if item.path or item.problem:
        return item.size, item.tag
    try:
        about = os.stat(item.address)  # noqa: PTH116 - Path objects cost too much for a million names
    except (OSError, ValueError):
        return None, ""
    return about.st_size, str(about.st_mtime_ns)


class MemoryBudget:
    """Limits the number of bytes in memory. Requests are served in order."""

    def __init__(self, size: int = MEMORY_BUDGET) -> None:
        self.size = self.free = size
        self._turn, self._released = asyncio.Lock(), asyncio.Event()

    async def acquire(self, count: int) -> int:
        """Wait until ``count`` bytes (at most the whole budget) are free. Return the number reserved."""
        count = min(count, self.size)
        async with self._turn:
            while self.free < count:
                self._released.clear()
                await self._released.wait()
            self.free -= count
        return count

    def release(self, count: int) -> None:
        if count:
            self.free += count
            self._released.set()


class Fetcher:
    """Reads ranges of files in a store; ``budget`` is shared by all fetchers of a process."""

    waits = True
    budget = MemoryBudget()

    async def part(self, item: FileInput, start: int, count: int) -> FileRange:
        """Return ``count`` bytes, or fewer at the end of the file. Raises NotReadError or TransientError."""
        raise NotImplementedError

    async def is_unchanged(self, item: FileInput, head: Head) -> bool:
        """Return whether a file with faults still has the same version and size, or raise like ``part``."""
        raise NotImplementedError

    async def head(self, item: FileInput, need: Need = bytes_needed) -> Head:
        requests = Requests(self, item)
        try:
            head = await with_timeout(FILE_SECONDS, with_retries(partial(requests.head, need)))
        except NotReadError as err:
            err.requests, err.received = requests.count, requests.received
            raise
        head.requests, head.received = requests.count, requests.received
        return head


class LocalFetcher(Fetcher):
    """Reads local files. Its coroutines never wait, so they run without an event loop."""

    waits = False

    async def head(self, item: FileInput, need: Need = bytes_needed) -> Head:
        with _opened(item) as source:
            size = source.size
            data = source.read(0, min(LOCAL_FIRST, size))
            whole, reads = need(data, size), 1
            if whole > len(data):
                data += source.read(len(data), whole - len(data))
                reads = 2
            return Head(item.address, size, data, str(source.opened.st_mtime_ns), reads, len(data))

    async def part(self, item: FileInput, start: int, count: int) -> FileRange:
        with _opened(item) as source:
            data = source.read(start, max(0, min(count, source.size - start)))
            return FileRange(data, source.size, str(source.opened.st_mtime_ns))

    async def is_unchanged(self, item: FileInput, head: Head) -> bool:
        return listed(item) == (head.size, head.tag)


@contextmanager
def _opened(item: FileInput) -> Iterator[PathSource]:
    try:
        with PathSource(item.address) as source:
            yield source
    except UnreadableError as err:
        note, cause = str(err).rpartition(": ")[2], err.__cause__
        verdict: NotRead = "changed" if err.code == "API_TRUNCATED" else "unreadable"
        if isinstance(cause, FileNotFoundError | NotADirectoryError):
            verdict = "missing"
        elif isinstance(cause, PermissionError):
            verdict = "refused"
        if isinstance(cause, FileNotFoundError):
            note += describe_missing(item.address)
        raise NotReadError(verdict, note) from err


class Requests:
    """Sends and counts the range requests for one file."""

    def __init__(self, fetcher: Fetcher, item: FileInput) -> None:
        self.fetcher, self.item = fetcher, item
        self.count = self.received = 0

    async def part(self, start: int, count: int) -> FileRange:
        self.count += 1
        part = await self.fetcher.part(self.item, start, count)
        self.received += len(part.data)
        return part

    async def head(self, need: Need = bytes_needed) -> Head:
        first = await self.part(0, FIRST)
        listed = self.item.size
        if listed is not None and listed != first.size:
            text = f"the listing says {listed:,} bytes, but the file now has {first.size:,} bytes"
            raise TransientError("changed", text)
        whole = need(first.data, first.size)
        held = 0
        data = first.data
        try:
            if len(data) < whole:
                held = await self.fetcher.budget.acquire(whole)
                rest = await self.part(len(data), whole - len(data))
                if (rest.size, rest.tag) != (first.size, first.tag):
                    raise TransientError("changed", "the file was replaced after the first request")
                data += rest.data
            if len(data) < whole:
                raise TransientError("changed", f"the response ends at byte {len(data):,} of {first.size:,}")
        except BaseException:
            self.fetcher.budget.release(held)
            raise
        return Head(self.item.address, first.size, data, self.item.tag or first.tag, held=held)


async def confirm_unchanged(fetcher: Fetcher, item: FileInput, head: Head) -> None:
    head.requests += fetcher.waits
    try:
        check = with_retries(partial(fetcher.is_unchanged, item, head))
        if not await (with_timeout(FILE_SECONDS, check) if fetcher.waits else check):
            raise NotReadError("changed", "the file was replaced after its header was read")
    except NotReadError as err:
        err.requests, err.received = head.requests, head.received
        raise


async def with_timeout(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError as err:
        text = f"the file could not be read within {seconds:,.0f} s, including retries"
        raise NotReadError("unreachable", text) from err


async def with_retries(ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Await ``ask()`` up to ``ATTEMPTS`` times with growing delays, as long as it raises TransientError."""
    for attempt in range(1, ATTEMPTS):
        try:
            return await ask()
        except TransientError as err:
            pause = max(FIRST_WAIT, random.uniform(0, FIRST_WAIT * 2**attempt), err.after)  # noqa: S311
        await asyncio.sleep(min(pause, LONGEST_WAIT))
    return await ask()
