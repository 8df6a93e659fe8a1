"""Reads files on the Hub (``hf://``) and on web servers with range requests, through fsspec."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as quote_address
from urllib.parse import urlsplit

from ..rules.faults import quote, shown_name
from ..source import Uncopied, UnreadableError, shorter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .reading import FileRange

HUB = "hf://"
SCHEMES = (HUB, "https://", "http://")
FIRST = 64 << 10
NEEDED = "needs the extra remote: pip install 'safetensors-conformance[remote]'"
CACHED_FILES = 4


def is_remote(name: str) -> bool:
    return name.startswith(SCHEMES)


def beside(address: str, name: str) -> str:
    folder = address.rpartition("/")[0]
    if address.startswith(HUB):
        return f"{folder}/{name}"
    parts = urlsplit(address)
    folder = parts.path.rpartition("/")[0]
    return parts._replace(path=f"{folder}/{quote_address(name)}", query="", fragment="").geturl()


def remote_names(address: str, wanted: Callable[[str], bool]) -> list[str]:
    """Return the sorted names below a Hub folder that ``wanted`` accepts. Raises UnreadableError."""
    with _as_unreadable(address):
        fs = _hub(os.environ.get("HF_ENDPOINT"))
        files = fs.find(address.removeprefix(HUB).strip("/"))
    # The files of a folder precede its subfolders, as in a walk of a local folder.
    names = sorted((name for name in map(str, files) if wanted(name)), key=_walk_order)
    return [f"{HUB}{name}" for name in names]


def _walk_order(name: str) -> tuple[tuple[str, ...], str]:
    *folders, last = name.split("/")
    return tuple(folders), last


class RemoteSource(Uncopied):
    """Source for a remote file. Its size comes from the listing or from the server."""

    def __init__(self, address: str) -> None:
        self.name = address
        self._request: Callable[[int, int], bytes]
        self._first = b""
        with _as_unreadable(address):
            if address.startswith(HUB):
                fs = _hub(os.environ.get("HF_ENDPOINT"))
                self._file = fs.open(address.removeprefix(HUB).strip("/"), "rb", cache_type="none")
                self.size, self._request = self._file.size, self._of_hub
            else:
                self._part = _web(address)
                part = self._part(0, FIRST)
                self.size, self._tag, self._first, self._request = (
                    part.size,
                    part.tag,
                    part.data,
                    self._of_web,
                )
        if type(self.size) is not int:
            raise UnreadableError(f"{shown_name(address)}: the server does not report the size of the file")

    def read(self, start: int, count: int) -> bytes:
        if not self._first and start < FIRST:
            self._first = self._range(0, min(FIRST, self.size))
        have = self._first[start : start + count] if start < FIRST else b""
        return have if len(have) >= count else have + self._range(start + len(have), count - len(have))

    def confirm(self) -> None:
        if not self.name.startswith(HUB):
            self._range(max(self.size - 1, 0), min(self.size, 1))

    def _range(self, start: int, count: int) -> bytes:
        if not count:
            return b""
        with _as_unreadable(self.name):
            data = self._request(start, count)
        if len(data) > count:
            raise UnreadableError(
                f"{shown_name(self.name)}: the server returned more than the requested range"
            )
        if len(data) < count:
            raise shorter(shown_name(self.name), start + len(data))
        return bytes(data)

    def _of_hub(self, start: int, count: int) -> bytes:
        self._file.seek(start)
        return bytes(self._file.read(count))

    def _of_web(self, start: int, count: int) -> bytes:
        part = self._part(start, count)
        if (part.size, part.tag) != (self.size, self._tag):
            raise UnreadableError(
                f"{shown_name(self.name)}: the file changed while it was read", "API_TRUNCATED", "API-11"
            )
        return part.data


@lru_cache(CACHED_FILES)
def open_remote(address: str) -> RemoteSource:
    return RemoteSource(address)


@contextmanager
def _as_unreadable(address: str) -> Iterator[None]:
    try:
        yield
    except UnreadableError:
        raise
    except ImportError as err:
        raise UnreadableError(f"{shown_name(address)}: {NEEDED} ({err.name or err})") from err
    except Exception as err:  # may be any exception class, with text from the server
        if isinstance(err, FileNotFoundError):
            raise UnreadableError(f"{shown_name(address)}: No such file or directory") from err
        text = " ".join(str(err).split()) or type(err).__name__
        raise UnreadableError(f"{shown_name(address)}: {quote(text, 300)[1:-1]}") from err


@lru_cache(CACHED_FILES)
def _hub(endpoint: str | None) -> Any:
    from huggingface_hub import HfFileSystem

    return HfFileSystem(endpoint=endpoint)


def _web(address: str) -> Callable[[int, int], FileRange]:
    import asyncio

    import aiohttp  # noqa: F401 - name the missing module
    import fsspec  # noqa: F401

    from ..audit.batches import AuditInput
    from ..audit.row import NotReadError
    from .stores import fetcher_of

    fetcher, loop = fetcher_of("https://")

    def request(start: int, count: int) -> FileRange:
        try:
            part = fetcher.part(AuditInput(address, address), start, count)
            return asyncio.run_coroutine_threadsafe(part, loop).result()
        except NotReadError as err:
            if err.verdict == "missing":
                raise FileNotFoundError(address) from None
            raise OSError(err.note) from err

    return request
