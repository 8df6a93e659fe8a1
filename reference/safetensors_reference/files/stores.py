"""Fetchers for files in stores. They use either fsspec or plain HTTP."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..audit.row import LARGEST, Head, NotReadError
from .reading import Fetcher, FileRange, TransientError, bytes_needed, time_for
from .walk import SourceError, file_system, tag_of
from .web import RequestTarget, Web, check_status, client

if TYPE_CHECKING:
    from ..audit.batches import AuditInput

STORE_SECONDS = 120.0
"""Maximum wait for a store in seconds, including its own retries."""
WEB = ("https://", "hf://")
THREADS = 64


class UnreachableStore(Fetcher):
    """A store that cannot be opened."""

    waits = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:  # noqa: ARG002
        raise NotReadError("unreachable", self._reason)


class StoreFetcher(Fetcher):
    """Reads ranges with a file system of fsspec, which does its own retries first."""

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
        except TimeoutError as err:  # no retry, because other requests are waiting
            raise NotReadError("unreachable", f"no complete response within {seconds:,.0f} s") from err
        except FileNotFoundError as err:
            raise NotReadError("missing", "the file does not exist in the store") from err
        except PermissionError as err:
            raise NotReadError("refused", str(err) or "no permission") from err
        except Exception as err:  # implementations may raise any exception class
            raise TransientError("unreachable", f"{type(err).__name__}: {err}") from err

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:
        size, tag = item.size, item.tag
        if size is None:
            about = await self._call("info", item.path)
            size, tag = about.get("size"), tag_of(about)
            if size is None:
                raise NotReadError("unreachable", "the store does not report the size of the file")
        if not 0 <= size <= LARGEST:
            raise NotReadError("unreachable", f"the store reports an impossible size of {size:,} bytes")
        end = min(start + count, size)
        data = b""
        if end > start:
            data = await self._call("cat_file", item.path, start=start, end=end, count=end - start)
        if len(data) != end - start:
            raise TransientError(
                "changed",
                f"the store returned {len(data):,} bytes instead of {end - start:,} from byte {start:,}",
            )
        return FileRange(data, size, tag)

    async def is_unchanged(self, item: AuditInput, head: Head) -> bool:
        about = await self._call("info", item.path)
        return about.get("size") == head.size and tag_of(about) == (head.tag or tag_of(about))


class WebFetcher(Fetcher):
    """Reads ranges over HTTP and checks each response (NET-01), unlike the file system of fsspec."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self._redirected: dict[str, RequestTarget] = {}

    async def part(self, item: AuditInput, start: int, count: int) -> FileRange:
        place = RequestTarget(item.path, item.path)
        if start:  # use the address to which the first request was redirected
            place = self._redirected.pop(item.path, place)
        fields = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
        async with self.web.get(place, fields, count) as (answer, target):
            part = await _read_range(answer, start, count)
            if target != place and start == 0 and bytes_needed(part.data, part.size) > len(part.data):
                self._redirected[item.path] = target
            return part
        raise AssertionError

    async def is_unchanged(self, item: AuditInput, head: Head) -> bool:
        if not head.size:
            return True
        part = await self.part(item, head.size - 1, 1)
        return part.size == head.size and part.tag in (head.tag, item.tag, "")


async def _read_range(answer: Any, start: int, count: int) -> FileRange:
    status, fields = answer.status, answer.headers
    check_status(answer)
    content_range = fields.get("Content-Range", "")
    if status == 416 and content_range == "bytes */0":
        return FileRange(b"", 0, fields.get("ETag", "").strip('"'))
    if status in (200, 416):
        raise NotReadError(
            "no-ranges", f"status {status} for a range request: the server sends only whole files"
        )
    if status != 206:
        raise NotReadError("unreachable", f"status {status}")
    if fields.get("Content-Encoding", "identity") != "identity" or "multipart" in fields.get(
        "Content-Type", ""
    ):
        raise NotReadError("no-ranges", "the response is compressed or has several parts")
    first, last, size = _parse_content_range(content_range)
    if first != start or last != min(start + count, size) - 1:
        raise NotReadError(
            "no-ranges",
            f"the response has Content-Range {content_range[:80]}, but bytes {start}-{start + count - 1} "
            "were requested",
        )
    data = await answer.content.readexactly(last - first + 1)
    if await answer.content.read(1):
        raise NotReadError("no-ranges", "the response has more bytes than requested")
    tag = fields.get("ETag") or fields.get("Last-Modified") or ""
    return FileRange(data, size, tag.strip('"'))


def _parse_content_range(text: str) -> tuple[int, int, int]:
    unit, _, rest = text.partition(" ")
    span, _, size = rest.partition("/")
    first, _, last = span.partition("-")
    numbers = [number.strip() for number in (first, last, size)]
    if unit != "bytes" or not all(n.isascii() and n.isdecimal() and len(n) < 20 for n in numbers):
        raise NotReadError("no-ranges", f"Content-Range {text[:80]!r} does not give a byte range")
    if int(numbers[2]) > LARGEST:
        raise NotReadError("no-ranges", f"Content-Range {text[:80]!r} contains an impossible file size")
    return int(numbers[0]), int(numbers[1]), int(numbers[2])


@cache
def fetcher_of(store: str) -> tuple[Fetcher, Any]:
    try:
        # One session serves all hosts, because a session of fsspec is limited to 100 connections.
        fs = file_system("https://", get_client=client) if store in WEB else file_system(store)
    except SourceError as err:
        return UnreachableStore(str(err)), None
    from fsspec.asyn import get_loop

    headers: dict[str, str] = {}
    if store == "hf://":
        from huggingface_hub.utils import build_hf_headers

        headers = dict(build_hf_headers())
    return WebFetcher(Web(fs, headers)) if store in WEB else StoreFetcher(fs), get_loop()
