"""The beginning of a file, from the file system in one read or from a store by at most two ranges."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..rules.book import HEADER_CAP
from ..source import PathSource, UnreadableError
from .row import Head, NotReadError, Verdict

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from .batches import AuditInput

Result = TypeVar("Result")
Need = Callable[[bytes, int], int]
"""Tells by the first bytes of a file and its size how many bytes must be there."""
FIRST = 64 << 10
"""Bytes that the first request asks for: most headers are shorter, and more would be data."""
LOCAL_FIRST = 32 << 10
ATTEMPTS = 5
"""How often a file is asked for before it counts as unreachable, or as changed."""
LONGEST_WAIT = 30.0
"""Most seconds between two attempts, also where the server asks for more."""
SECONDS = 30.0
"""Longest wait for an answer, to which ``MIN_BYTES_PER_SECOND`` adds the time of its bytes."""
MIN_BYTES_PER_SECOND = 256 << 10
"""Bytes a second that an answer must bring at least."""
FILE_SECONDS = 600.0
"""Longest time for the header of a file in a store, all attempts and pauses included."""
MEMORY_BUDGET = 128 << 20
"""Bytes that a process has under way at a time, besides the first request of each file."""


def time_for(count: int) -> float:
    """Return how many seconds an answer of ``count`` bytes may take; after that it is not asked for again."""
    return SECONDS + count / MIN_BYTES_PER_SECOND


class TransientError(NotReadError):
    """An outcome that may be another one the next time.

    Attributes:
        after: seconds to wait that the server asks for, 0 where it does not.
    """

    after = 0.0


class FileRange(NamedTuple):
    """A range of a file. ``size`` and ``tag`` are those of the whole file."""

    data: bytes
    size: int
    tag: str


def bytes_needed(data: bytes, size: int) -> int:
    """Return how many bytes of a file must be there to judge it: length prefix and header.

    Of a header length that no reader believes, the prefix is all.
    """
    length = int.from_bytes(data[:8], "little")
    return 8 + length if size >= 8 and 0 < length <= min(HEADER_CAP, size - 8) else min(8, size)


def listed(item: AuditInput) -> tuple[int | None, str]:
    """Return size and tag of a file before it is read: what the store lists, or the file system says now."""
    if item.path or item.problem:
        return item.size, item.tag
    try:
        about = os.stat(item.address)  # noqa: PTH116 - a path object for each of a million names costs more
    except (OSError, ValueError):
        return None, ""
    return about.st_size, str(about.st_mtime_ns)


class MemoryBudget:
    """A number of bytes that may be in memory at a time; what wants more waits for what came before."""

    def __init__(self, size: int = MEMORY_BUDGET) -> None:
        self.size = self.free = size
        self._turn, self._given = asyncio.Lock(), asyncio.Event()

    async def take(self, count: int) -> int:
        """Wait until there is room for ``count`` bytes, at most all of it; return what to give back."""
        count = min(count, self.size)
        async with self._turn:
            while self.free < count:
                self._given.clear()
                await self._given.wait()
            self.free -= count
        return count

    def give(self, count: int) -> None:
        if count:
            self.free += count
            self._given.set()


class Fetcher:
    """Ranges of files in a store.

    Attributes:
        waits: whether it is worth asking for many files at a time.
        room: for what all fetchers of a process have under way.
    """

    waits = True
    room = MemoryBudget()

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:
        """Return up to ``count`` bytes from ``start`` on, fewer only at the end of the file.

        Raises NotReadError, and TransientError for what another attempt may mend.
        """
        raise NotImplementedError

    async def is_unchanged(self, item: AuditInput, head: Head) -> bool:
        """Return whether a file with faults is still the same, and as long as it was said to be.

        Raises NotReadError like ``part``.
        """
        raise NotImplementedError

    async def head(self, item: AuditInput, need: Need = bytes_needed) -> Head:
        """Return the beginning of a file, whose ``held`` is to be given back. Raises NotReadError."""
        asked = Requests(self, item)
        try:
            head = await with_timeout(FILE_SECONDS, with_retries(partial(asked.head, need)))
        except NotReadError as err:
            err.requests, err.received = asked.count, asked.received
            raise
        head.requests, head.received = asked.count, asked.received
        return head


class LocalFetcher(Fetcher):
    """Files of the file system. It never waits, so that no loop is needed to run it."""

    waits = False

    async def head(self, item: AuditInput, need: Need = bytes_needed) -> Head:
        source = _open(item)
        try:
            size = source.size
            data = source.read(0, min(LOCAL_FIRST, size))
            whole, reads = need(data, size), 1
            if whole > len(data):
                data += source.read(len(data), whole - len(data))
                reads = 2
            return Head(item.address, size, data, str(source.opened.st_mtime_ns), reads, len(data))
        except UnreadableError as err:
            raise _outcome(err) from err
        finally:
            source.close()

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:
        source = _open(item)
        try:
            data = source.read(start, max(0, min(count, source.size - start)))
            return FileRange(data, source.size, str(source.opened.st_mtime_ns))
        except UnreadableError as err:
            raise _outcome(err) from err
        finally:
            source.close()

    async def is_unchanged(self, item: AuditInput, head: Head) -> bool:
        return listed(item) == (head.size, head.tag)


def _open(item: AuditInput) -> PathSource:
    try:
        return PathSource(item.address)
    except UnreadableError as err:
        raise _outcome(err) from err


def _outcome(err: UnreadableError) -> NotReadError:
    verdict: Verdict = "unreadable"
    if err.code == "API_TRUNCATED":
        verdict = "changed"
    elif isinstance(err.__cause__, FileNotFoundError | NotADirectoryError):
        verdict = "missing"
    elif isinstance(err.__cause__, PermissionError):
        verdict = "refused"
    return NotReadError(verdict, str(err).rpartition(": ")[2])


class Requests:
    """Ranges of one file, counted, each asked for again after a failure that may pass."""

    def __init__(self, fetcher: Fetcher, item: AuditInput) -> None:
        self.fetcher, self.item = fetcher, item
        self.count = self.received = 0

    async def part(self, start: int, count: int) -> FileRange:
        """Return a range. Raises NotReadError with what it took so far."""
        self.count += 1
        part = await self.fetcher.part(self.item, start, count)
        self.received += len(part.data)
        return part

    async def head(self, need: Need = bytes_needed) -> Head:
        """Return the beginning of the file: at most two requests when nothing fails."""
        first = await self.part(0, FIRST)
        listed = self.item.size
        if listed is not None and listed != first.size:
            raise TransientError("changed", f"{listed:,} bytes in the listing, {first.size:,} now")
        whole = need(first.data, first.size)
        held = 0
        data = first.data
        try:
            if len(data) < whole:
                held = await self.fetcher.room.take(whole)
                rest = await self.part(len(data), whole - len(data))
                if (rest.size, rest.tag) != (first.size, first.tag):
                    raise TransientError("changed", "another file after the first request")
                data += rest.data
            if len(data) < whole:
                raise TransientError("changed", f"ends at byte {len(data):,} of {first.size:,}")
        except BaseException:
            self.fetcher.room.give(held)
            raise
        return Head(self.item.address, first.size, data, self.item.tag or first.tag, held=held)


async def confirm_unchanged(fetcher: Fetcher, item: AuditInput, head: Head) -> None:
    """Raise NotReadError unless a file with faults is what the first answers said it is."""
    head.requests += fetcher.waits
    try:
        asked = with_retries(partial(fetcher.is_unchanged, item, head))
        if not await (with_timeout(FILE_SECONDS, asked) if fetcher.waits else asked):
            raise NotReadError("changed", "another file after its header was read")
    except NotReadError as err:
        err.requests, err.received = head.requests, head.received
        raise


async def with_timeout(seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what ``work`` returns. Raises NotReadError when that takes too long."""
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError as err:
        raise NotReadError("unreachable", f"not read within {seconds:,.0f} s, all attempts included") from err


async def with_retries(ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Return what ``ask`` returns, asked again with growing pauses as long as its failures may pass."""
    try:
        return await ask()
    except TransientError as first:
        from tenacity import (
            AsyncRetrying,
            retry_if_exception_type,
            stop_after_attempt,
            wait_random_exponential,
        )

        backoff = wait_random_exponential(multiplier=0.2, max=LONGEST_WAIT)

        def wait(state: Any) -> float:
            return float(max(backoff(state), min(state.outcome.exception().after, LONGEST_WAIT)))

        await asyncio.sleep(min(max(0.1, first.after), LONGEST_WAIT))
        again = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS - 1),
            wait=wait,
            retry=retry_if_exception_type(TransientError),
            reraise=True,
        )
        async for attempt in again:
            with attempt:
                return await ask()
        raise
