"""Lists the files in stores such as the Hub, S3 and web servers, and reads these files or ranges of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from ..source import Uncopied, UnreadableError, shorter
from ..text import shown_name
from .names import HUB, NO_MODEL_FILES, WEB, FileInput, Folder, SourceError, is_model_file, is_remote
from .reading import (
    LARGEST,
    Fetcher,
    FileRange,
    Head,
    NotReadError,
    TransientError,
    confirm_unchanged,
    time_for,
    with_retries,
)
from .web import MAX_ADDRESS, Web, WebFetcher, archive_client, client

Result = TypeVar("Result")
WEB_STORE = "https://"
NEEDED = "needs the remote extra: pip install 'safetensors-conformance[remote]'"
MAX_DEPTH = 64
TOO_DEEP = f"more than {MAX_DEPTH} nested folders; give deeper folders on the command line"
MAX_PAGES = 100_000
MAX_FAILED_PAGES = 10
CACHED_FILES = 2
_ARCHIVES = ("zip", "tar", "libarchive")
STORE_SECONDS = 120.0
"""Maximum wait for a store in seconds, including its own retries."""
THREADS = 64
_TAGS = ("ETag", "etag", "lfs", "blob_id", "sha256", "md5Hash", "generation", "mtime", "LastModified",
         "last_modified", "updated", "modified", "created")  # fmt: skip


@cache
def file_system(store: str, **options: Any) -> Any:
    return open_store(store, **options)[1]


def open_store(address: str, **options: Any) -> tuple[str, Any, str]:
    """Return the store of an address, its file system and the path within it. Raises SourceError."""
    try:
        from fsspec.core import url_to_fs

        for scheme in ("http", "https"):
            if f"::{scheme}://" in address:
                options[scheme] = {"get_client": archive_client}
        # A cache of listings would grow with the number of names.
        fs, path = url_to_fs(address, use_listings_cache=False, **options)
    except Exception as err:  # implementations may raise any exception class
        text = error_text(err)
        if isinstance(err, ImportError) and (err.name or is_remote(address)):
            text = f"{NEEDED} ({text})"
        raise SourceError(f"{shown_name(address)}: {text}") from err
    first, chained, rest = address.partition("::")
    protocol = first.partition("://")[0]
    return f"{protocol}::{rest}" if chained else f"{protocol}://", fs, str(path)


def error_text(err: Exception) -> str:
    cause = err.__cause__ if isinstance(err.__cause__, PermissionError) else err
    return shown_name(str(cause) or type(cause).__name__, 300)


def address_of(store: str, fs: Any, path: str) -> str:
    protocol, chained, rest = store.partition("::")
    if chained and protocol in _ARCHIVES:
        return f"{protocol}://{path}::{rest}"
    address = str(fs.unstrip_protocol(path))
    return f"{protocol}::{address}" if chained else address


def listed_input(store: str, fs: Any, path: str, about: Mapping[str, Any]) -> FileInput:
    """Return a file, with its size and version taken from ``about``, which is its entry in a listing."""
    address = address_of(store, fs, path)
    try:
        # The file system of the Hub is synchronous and sends several requests per file.
        place = str(fs.url(path)) if store == HUB else path
    except Exception as err:  # implementations may raise any exception class
        return FileInput(address, problem=error_text(err))
    size = about.get("size")
    known = isinstance(size, int) and 0 <= size <= LARGEST
    return FileInput(address, place, size if known else None, tag_of(about))


def tag_of(about: Mapping[str, Any]) -> str:
    """Return the version of a file in a listing, or an empty string if there is none."""
    value = next((about[key] for key in _TAGS if about.get(key)), "")
    if isinstance(value, dict):  # a large file on the Hub
        value = value.get("sha256") or value.get("oid") or ""
    if not isinstance(value, str | int | float):
        value = getattr(value, "timestamp", lambda: "")()
    return str(value).strip('"')


def find_remote(address: str) -> Iterator[Folder]:
    """Yield the model files at an address, grouped by folder and sorted. Raises SourceError."""
    if address.startswith(WEB) and "::" not in address:
        if address.endswith("/"):  # on a web server, only a trailing slash identifies a folder
            yield from _pages(address)
        else:
            yield Folder.of([FileInput(address, address)], WEB_STORE)
        return
    store, fs, path = open_store(address)
    try:
        about = fs.info(path)
        if about.get("type") == "file":
            yield Folder.of([listed_input(store, fs, str(about["name"]), about)], store)
            return
    except Exception as err:  # implementations may raise any exception class
        yield Folder.problem(address, error_text(err))
        return
    places, empty = deque([path]), True
    while places:
        place = places.popleft()
        try:
            entries = sorted(fs.ls(place, detail=True), key=lambda entry: str(entry["name"]))
        except Exception as err:
            empty = False
            yield Folder.problem(address_of(store, fs, place), error_text(err))
            continue
        inside = place.rstrip("/") + "/" if place.strip("/") else place
        # A page may link to files outside the folder.
        entries = [entry for entry in entries if str(entry["name"]).startswith(inside)]
        below = [str(entry["name"]) for entry in entries if entry["type"] == "directory"]
        below = [name for name in below if name.rstrip("/") != place.rstrip("/")]
        if below and place.count("/") - path.count("/") >= MAX_DEPTH:
            yield Folder.problem(address_of(store, fs, place), TOO_DEEP)
        else:
            places.extendleft(reversed(below))
        items = [
            listed_input(store, fs, str(entry["name"]), entry)
            for entry in entries
            if entry["type"] == "file" and is_model_file(str(entry["name"]))
        ]
        if items:
            empty = False
            yield Folder.of(items, store, listed=True)
    if empty:
        yield Folder.problem(address, NO_MODEL_FILES)


def _pages(top: str) -> Iterator[Folder]:
    """Yield the files that the pages of a web server link to, up to ``MAX_PAGES`` pages."""
    from fsspec.asyn import get_loop

    web = Web(file_system(WEB_STORE, get_client=client))
    places, empty, count, lost = deque([top]), True, 1, 0
    while places:
        place = places.popleft()
        request = with_retries(partial(web.links, place))
        try:
            links, long = asyncio.run_coroutine_threadsafe(request, get_loop()).result()
        except Exception as err:  # libraries may raise any exception class
            empty = False
            yield Folder.problem(place, error_text(err))
            lost = lost + 1 if isinstance(err, NotReadError) and err.verdict == "unreachable" else 0
            if lost == MAX_FAILED_PAGES and places:
                text = f"{lost} consecutive pages could not be read; the other pages were skipped"
                yield Folder.problem(top, text)
                return
            continue
        lost = 0
        below = [link for link in links if link.endswith("/")]
        items = [FileInput(link, link) for link in links if is_model_file(link)]
        problems = [f"the page links to addresses with more than {MAX_ADDRESS:,} characters"] if long else []
        if below and place.count("/") - top.count("/") >= MAX_DEPTH:
            problems.append(TOO_DEEP)
            below = []
        if count + len(below) > MAX_PAGES:
            text = f"{top} has more than {MAX_PAGES:,} folders; give the other folders on the command line"
            problems.append(text)
            below = below[: MAX_PAGES - count]
        count += len(below)
        places.extendleft(reversed(below))
        empty &= not (items or problems)
        if items:
            yield Folder.of(items, WEB_STORE)
        for problem in problems:
            yield Folder.problem(place, problem)
    if empty:
        yield Folder.problem(top, NO_MODEL_FILES)


def remote_input(line: str) -> tuple[str | None, FileInput]:
    if line.startswith(WEB) and "::" not in line:
        return WEB_STORE, FileInput(line, line)
    try:
        store, fs, path = open_store(line)
        return store, listed_input(store, fs, path, {})
    except SourceError as err:
        return None, FileInput(line, problem=str(err))


class UnreachableStore(Fetcher):
    """A store that cannot be opened."""

    waits = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def part(self, item: FileInput, start: int, count: int) -> FileRange:  # noqa: ARG002
        raise NotReadError("unreachable", self._reason)


class StoreFetcher(Fetcher):
    """Reads ranges with an fsspec file system, which has its own retries."""

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

    async def part(self, item: FileInput, start: int, count: int) -> FileRange:
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
            text = f"the store returned {len(data):,} bytes instead of {end - start:,} from byte {start:,}"
            raise TransientError("changed", text)
        return FileRange(data, size, tag)

    async def is_unchanged(self, item: FileInput, head: Head) -> bool:
        about = await self._call("info", item.path)
        return about.get("size") == head.size and tag_of(about) == (head.tag or tag_of(about))


@cache
def fetcher_of(store: str) -> tuple[Fetcher, Any]:
    """Return the fetcher of a store and the event loop in which it must run."""
    plain = store in (WEB_STORE, HUB)
    try:
        # Use one session for all hosts. The default session of fsspec is limited to 100 connections.
        fs = file_system(WEB_STORE, get_client=client) if plain else file_system(store)
    except SourceError as err:
        return UnreachableStore(str(err)), None
    from fsspec.asyn import get_loop

    headers: dict[str, str] = {}
    if store == HUB:
        from huggingface_hub.utils import build_hf_headers

        headers = dict(build_hf_headers())
    return WebFetcher(Web(fs, headers)) if plain else StoreFetcher(fs), get_loop()


class RemoteSource(Uncopied):
    """Source for one file on the Hub or on a web server, with the same retries and limits as an audit."""

    def __init__(self, address: str) -> None:
        self.name = address
        with self._unreadable():
            store, fs, path = open_store(address)
            web = address.startswith(WEB)
            self._item = FileInput(address, address) if web else listed_input(store, fs, path, {})
            if self._item.problem:
                raise NotReadError("unreadable", self._item.problem)
            self._fetcher, self._loop = fetcher_of(WEB_STORE if web else store)
            self._head = self._wait(self._begin())
        self.size = self._head.size

    async def _begin(self) -> Head:
        head = await self._fetcher.head(self._item)
        self._fetcher.budget.release(head.held)
        return head

    def read(self, start: int, count: int) -> bytes:
        data = self._head.data[start : start + count]
        if len(data) == count:
            return data
        start, count = start + len(data), count - len(data)
        with self._unreadable():
            part = self._wait(with_retries(partial(self._fetcher.part, self._item, start, count)))
        if (part.size, part.tag) != (self.size, self._head.tag):
            text = f"{shown_name(self.name)}: the file changed while it was read"
            raise UnreadableError(text, "API_TRUNCATED", "API-11")
        if len(part.data) < count:
            raise shorter(shown_name(self.name), start + len(part.data))
        return data + part.data

    def confirm(self) -> None:
        """Raise UnreadableError if a file with faults has changed on its web server."""
        if not self.name.startswith(HUB):
            with self._unreadable():
                self._wait(confirm_unchanged(self._fetcher, self._item, self._head))

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextmanager
    def _unreadable(self) -> Iterator[None]:
        name = shown_name(self.name)
        try:
            yield
        except SourceError as err:
            raise UnreadableError(str(err)) from err
        except NotReadError as err:
            if err.verdict == "missing":
                raise UnreadableError(f"{name}: No such file or directory") from FileNotFoundError(name)
            reason = ("API_TRUNCATED", "API-11") if err.verdict == "changed" else ()
            raise UnreadableError(f"{name}: {shown_name(err.note, 300)}", *reason) from err
        except FileNotFoundError as err:
            raise UnreadableError(f"{name}: No such file or directory") from err
        except Exception as err:  # may be any exception class, with text from the server
            raise UnreadableError(f"{name}: {error_text(err)}") from err


@lru_cache(CACHED_FILES)
def open_remote(address: str) -> RemoteSource:
    return RemoteSource(address)
