"""Files on servers: the Hub (``hf://``) and any web server that answers by ranges, through fsspec.

Of a file that is checked the first 64 KiB are asked for, and the rest of the header where it is longer. What
comes with them is all that is read of the data. The libraries come with the extra ``remote``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as quote_address
from urllib.parse import urlsplit

from .rules.faults import quote, shown_name
from .source import NotCopyable, UnreadableError, truncated_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .audit.reading import FileRange

HUB = "hf://"
SCHEMES = (HUB, "https://", "http://")
FIRST = 64 << 10
"""Bytes that the first request asks for: most headers are shorter, and more would be data."""
NEEDED = "needs the extra remote: pip install 'safetensors-conformance[remote]'"
KEPT = 4
"""Files whose first block is kept, for the bytes that are shown around faults."""


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
    """Return the addresses of all files below a folder of the Hub whose names are wanted, in sorted order.

    Raises:
        UnreadableError: it cannot be listed.
    """
    with _refused(address):
        fs = _hub(os.environ.get("HF_ENDPOINT"))
        found = fs.find(address.removeprefix(HUB).strip("/"))
    # Folder by folder, each with its files first, as a folder of this machine is walked.
    names = sorted((name for name in map(str, found) if wanted(name)), key=_place)
    return [f"{HUB}{name}" for name in names]


def _place(name: str) -> tuple[tuple[str, ...], str]:
    *folders, last = name.split("/")
    return tuple(folders), last


class RemoteSource(NotCopyable):
    """A source over a file behind an address. Its size comes from the listing or the server."""

    def __init__(self, address: str) -> None:
        self.name = address
        self._ask: Callable[[int, int], bytes]
        self._first = b""
        with _refused(address):
            if address.startswith(HUB):
                fs = _hub(os.environ.get("HF_ENDPOINT"))
                self._file = fs.open(address.removeprefix(HUB).strip("/"), "rb", cache_type="none")
                self.size, self._ask = self._file.size, self._of_hub
            else:
                self._part = _web(address)
                part = self._part(0, FIRST)
                self.size, self._tag, self._first, self._ask = part.size, part.tag, part.data, self._of_web
        if type(self.size) is not int:
            raise UnreadableError(f"{shown_name(address)}: the server tells no size of the file")

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on. Raises UnreadableError, also for a file that was cut."""
        if not self._first and start < FIRST:
            self._first = self._range(0, min(FIRST, self.size))
        have = self._first[start : start + count] if start < FIRST else b""
        return have if len(have) >= count else have + self._range(start + len(have), count - len(have))

    def confirm(self) -> None:
        """Raise UnreadableError unless a file with faults ends where the web server said it does."""
        if not self.name.startswith(HUB):
            self._range(max(self.size - 1, 0), min(self.size, 1))

    def _range(self, start: int, count: int) -> bytes:
        if not count:
            return b""
        with _refused(self.name):
            data = self._ask(start, count)
        if len(data) > count:
            raise UnreadableError(f"{shown_name(self.name)}: the server gave more than the range asked for")
        if len(data) < count:
            raise truncated_error(shown_name(self.name), start + len(data))
        return bytes(data)

    def _of_hub(self, start: int, count: int) -> bytes:
        self._file.seek(start)
        return bytes(self._file.read(count))

    def _of_web(self, start: int, count: int) -> bytes:
        part = self._part(start, count)
        if (part.size, part.tag) != (self.size, self._tag):
            raise UnreadableError(
                f"{shown_name(self.name)}: changed while it was read", "API_TRUNCATED", "API-11"
            )
        return part.data


@lru_cache(KEPT)
def open_remote(address: str) -> RemoteSource:
    """Return the file behind an address, the same one for some time. Raises UnreadableError."""
    return RemoteSource(address)


@contextmanager
def _refused(address: str) -> Iterator[None]:
    """Turn whatever a file system or its library raises into an UnreadableError of one line."""
    try:
        yield
    except UnreadableError:
        raise
    except ImportError as err:
        raise UnreadableError(f"{shown_name(address)}: {NEEDED} ({err.name or err})") from err
    except Exception as err:  # of whatever class, with texts of the server in it
        if isinstance(err, FileNotFoundError):
            raise UnreadableError(f"{shown_name(address)}: No such file or directory") from err
        text = " ".join(str(err).split()) or type(err).__name__
        raise UnreadableError(f"{shown_name(address)}: {quote(text, 300)[1:-1]}") from err


@lru_cache(KEPT)
def _hub(endpoint: str | None) -> Any:
    from huggingface_hub import HfFileSystem

    return HfFileSystem(endpoint=endpoint)


def _web(address: str) -> Callable[[int, int], FileRange]:
    import asyncio

    import aiohttp  # noqa: F401 - what is missing is named
    import fsspec  # noqa: F401

    from .audit.batches import AuditInput
    from .audit.row import NotReadError
    from .audit.stores import fetcher_of

    fetcher, loop = fetcher_of("https://")

    def ask(start: int, count: int) -> FileRange:
        try:
            asked = fetcher.part(AuditInput(address, address), start, count)
            return asyncio.run_coroutine_threadsafe(asked, loop).result()
        except NotReadError as err:
            if err.verdict == "missing":
                raise FileNotFoundError(address) from None
            raise OSError(err.note) from err

    return ask
