"""Files in stores: by the file systems of fsspec, and by HTTP."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from .reading import Fetcher, FileRange, TransientError, bytes_needed, time_for
from .row import LARGEST, Head, NotReadError
from .sources import SourceError, file_system, tag_of
from .web import RequestTarget, Web, check_status, client

if TYPE_CHECKING:
    from .batches import AuditInput

STORE_SECONDS = 120.0
"""Longest wait for an answer of a store, its own retries included."""
WEB = ("https://", "hf://")
"""Stores whose files are asked for by HTTP."""
THREADS = 64
"""Requests at a time to a store whose file system is not asynchronous."""


class UnreachableStore(Fetcher):
    """A store that cannot be opened."""

    waits = False

    def __init__(self, why: str) -> None:
        self._why = why

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:  # noqa: ARG002
        raise NotReadError("unreachable", self._why)


class StoreFetcher(Fetcher):
    """Ranges by the file system of fsspec, whose own retries come first."""

    def __init__(self, fs: Any) -> None:
        self.fs = fs
        self._threads = ThreadPoolExecutor(THREADS)

    async def _call(self, name: str, *args: Any, count: int = 0, **kwargs: Any) -> Any:
        seconds = STORE_SECONDS + time_for(count)
        try:
            if self.fs.async_impl:
                return await asyncio.wait_for(getattr(self.fs, f"_{name}")(*args, **kwargs), seconds)
            call = partial(getattr(self.fs, name), *args, **kwargs)
            work = asyncio.get_running_loop().run_in_executor(self._threads, call)
            return await asyncio.wait_for(work, seconds)
        except TimeoutError as err:  # not asked again: others wait behind it
            raise NotReadError("unreachable", f"no whole answer within {seconds:,.0f} s") from err
        except FileNotFoundError as err:
            raise NotReadError("missing", "no such file in the store") from err
        except PermissionError as err:
            raise NotReadError("refused", str(err) or "no permission") from err
        except Exception as err:  # of whatever class an implementation raises
            raise TransientError("unreachable", f"{type(err).__name__}: {err}") from err

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:
        size, tag = item.size, item.tag
        if size is None:
            about = await self._call("info", item.path)
            size, tag = about.get("size"), tag_of(about)
            if size is None:
                raise NotReadError("unreachable", "the store does not tell how long the file is")
        if not 0 <= size <= LARGEST:
            raise NotReadError("unreachable", f"the store tells of {size:,} bytes, which cannot be")
        end = min(start + count, size)
        data = b""
        if end > start:
            data = await self._call("cat_file", item.path, start=start, end=end, count=end - start)
        if len(data) != end - start:
            raise TransientError(
                "changed", f"{len(data):,} bytes instead of {end - start:,} from {start:,} on"
            )
        return FileRange(data, size, tag)

    async def is_unchanged(self, item: AuditInput, head: Head) -> bool:
        about = await self._call("info", item.path)
        return about.get("size") == head.size and tag_of(about) == (head.tag or tag_of(about))


class WebFetcher(Fetcher):
    """Ranges by HTTP, taken for what they are only when the answer says so (rule NET-01).

    fsspec's own file system asks for the size before, and does not look at what an answer says.
    """

    def __init__(self, web: Web) -> None:
        self.web = web
        self._places: dict[str, RequestTarget] = {}

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:
        place = RequestTarget(item.path, item.path)
        if start:  # where the first request was sent on to, the second goes at once
            place = self._places.pop(item.path, place)
        fields = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
        async with self.web.get(place, fields, count) as (answer, where):
            part = await _ranged(answer, start, count)
            if where != place and start == 0 and bytes_needed(part.data, part.size) > len(part.data):
                self._places[item.path] = where
            return part
        raise AssertionError

    async def is_unchanged(self, item: AuditInput, head: Head) -> bool:
        if not head.size:
            return True
        part = await self.part(item, head.size - 1, 1)
        return part.size == head.size and part.tag in (head.tag, item.tag, "")


async def _ranged(answer: Any, start: int, count: int) -> FileRange:
    """Read the answer to a request for a range. Raises NotReadError unless it is that range."""
    status, fields = answer.status, answer.headers
    check_status(answer)
    said = fields.get("Content-Range", "")
    if status == 416 and said == "bytes */0":
        return FileRange(b"", 0, fields.get("ETag", "").strip('"'))
    if status in (200, 416):
        raise NotReadError("no-ranges", f"status {status} for a range: the server sends whole files only")
    if status != 206:
        raise NotReadError("unreachable", f"status {status}")
    if fields.get("Content-Encoding", "identity") != "identity" or "multipart" in fields.get(
        "Content-Type", ""
    ):
        raise NotReadError("no-ranges", "the answer is compressed or in parts")
    first, last, size = _parse_content_range(said)
    if first != start or last != min(start + count, size) - 1:
        raise NotReadError("no-ranges", f"Content-Range {said[:80]} for bytes {start}-{start + count - 1}")
    data = await answer.content.readexactly(last - first + 1)
    if await answer.content.read(1):
        raise NotReadError("no-ranges", "more bytes than the range has")
    tag = fields.get("ETag") or fields.get("Last-Modified") or ""
    return FileRange(data, size, tag.strip('"'))


def _parse_content_range(said: str) -> tuple[int, int, int]:
    unit, _, rest = said.partition(" ")
    where, _, size = rest.partition("/")
    first, _, last = where.partition("-")
    numbers = [number.strip() for number in (first, last, size)]
    if unit != "bytes" or not all(n.isascii() and n.isdecimal() and len(n) < 20 for n in numbers):
        raise NotReadError("no-ranges", f"Content-Range {said[:80]!r} does not tell which bytes these are")
    if int(numbers[2]) > LARGEST:
        raise NotReadError("no-ranges", f"Content-Range {said[:80]!r} is of a file that cannot be")
    return int(numbers[0]), int(numbers[1]), int(numbers[2])


@cache
def fetcher_of(store: str) -> tuple[Fetcher, Any]:
    try:
        # The same session serves all hosts; fsspec's own has at most 100 connections.
        fs = file_system("https://", get_client=client) if store in WEB else file_system(store)
    except SourceError as err:
        return UnreachableStore(str(err)), None
    from fsspec.asyn import get_loop

    headers: dict[str, str] = {}
    if store == "hf://":
        from huggingface_hub.utils import build_hf_headers

        headers = dict(build_hf_headers())
    return WebFetcher(Web(fs, headers)) if store in WEB else StoreFetcher(fs), get_loop()
