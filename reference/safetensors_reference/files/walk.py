"""Sources of an audit: directories, lists and addresses that fsspec can open, searched folder by folder."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections import deque
from functools import cache, partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from ..audit.batches import MAX_MODEL_FOLDER, AuditInput, Folder
from ..audit.row import LARGEST, NotReadError
from ..rules.faults import quote, shown_name
from .names import MODEL_FILES, is_index, is_model_file
from .reading import with_retries
from .web import MAX_ADDRESS, Web, archive_client, client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NO_MODEL_FILES = f"contains no {MODEL_FILES}"
_TAGS = ("ETag", "etag", "lfs", "blob_id", "sha256", "md5Hash", "generation", "mtime", "LastModified",
         "last_modified", "updated", "modified", "created")  # fmt: skip
WEB = "https://"
MAX_DEPTH = 64
TOO_DEEP = f"more than {MAX_DEPTH} nested folders; give deeper folders on the command line"
MAX_PAGES = 100_000
MAX_FAILED_PAGES = 10
MAX_LINE = 8192
"""Maximum length of a line in a list, in characters. Paths and addresses are shorter."""
_ARCHIVES = ("zip", "tar", "libarchive")


class SourceError(Exception):
    """A source cannot be used. The message is a single line and names the source."""


def is_address(name: str) -> bool:
    return "://" in name or "::" in name


def find_folders(sources: Sequence[str], lists: Sequence[str]) -> Iterator[Folder]:
    """Yield the files of all sources, grouped by folder and sorted."""
    for source in filter(is_address, sources):
        _open_store(source)  # reports an unusable address before any work begins
    for name in lists:
        try:
            if name != "-" and not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116
                text = "this is not a regular file; use --list - for a pipe"
                raise SourceError(f"{shown_name(name)}: {text}")
        except (OSError, ValueError) as err:
            raise SourceError(f"{shown_name(name)}: {getattr(err, 'strerror', None) or err}") from err
    return _folders(sources, lists)


def _folders(sources: Sequence[str], lists: Sequence[str]) -> Iterator[Folder]:
    for source in sources:
        if is_address(source):
            yield from _remote(source)
        elif os.path.isdir(source):  # noqa: PTH112 - keep the spelling
            yield from _walk(source)
        else:
            yield _folder(None, [AuditInput(source)])
    for name in lists:
        pairs = map(_item, _lines(name))
        for (store, _), group in groupby(
            pairs, key=lambda pair: (pair[0], pair[1].address.rpartition("/")[0])
        ):
            items = (item for _, item in group)
            while part := list(islice(items, MAX_MODEL_FOLDER)):
                yield _folder(store, part)


def _folder(store: str | None, items: list[AuditInput]) -> Folder:
    return Folder(store, items, any(item.is_index for item in items))


def _walk(top: str) -> Iterator[Folder]:
    places, empty = deque([top]), True
    while places:
        place = places.popleft()
        names: list[str] = []
        below: list[str] = []
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
                    elif is_model_file(entry.name):
                        names.append(entry.path)
        except OSError as err:
            empty = False
            yield _problem(place, err.strerror or str(err))
            continue
        places.extendleft(sorted(below, reverse=True))
        if names:
            empty = False
            names.sort()
            has_index = any(map(is_index, names))
            # Map lazily, because a folder may contain a million names.
            yield Folder(None, map(AuditInput, names), has_index)
    if empty:
        yield _problem(top, NO_MODEL_FILES)


def _problem(address: str, why: str) -> Folder:
    return Folder(None, [AuditInput(address, problem=why)], False)


def _lines(name: str) -> Iterator[str]:
    number = 0
    try:
        with open(name if name != "-" else sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape",
                  closefd=name != "-") as file:  # fmt: skip
            while line := file.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE:
                    text = f"line {number:,} is longer than {MAX_LINE:,} characters"
                    raise SourceError(f"{shown_name(name)}: {text}")
                if line.strip():
                    yield line.rstrip("\r\n")
    except OSError as err:
        raise SourceError(f"{shown_name(name)}: {err.strerror or err}") from err


def _item(line: str) -> tuple[str | None, AuditInput]:
    if not is_address(line):
        return None, AuditInput(line)
    if line.startswith(("http://", "https://")) and "::" not in line:
        return WEB, AuditInput(line, line)
    try:
        store, fs, path = _open_store(line)
        return store, _remote_item(store, fs, path, {})
    except SourceError as err:
        return None, AuditInput(line, problem=str(err))


@cache
def file_system(store: str, **options: Any) -> Any:
    return _open_store(store, **options)[1]


def _open_store(address: str, **options: Any) -> tuple[str, Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as err:
        text = "addresses need fsspec: pip install 'safetensors-conformance[remote]'"
        raise SourceError(f"{shown_name(address)}: {text}") from err
    try:
        for scheme in ("http", "https"):
            if f"::{scheme}://" in address:
                options[scheme] = {"get_client": archive_client}
        # A cache of listings would grow with the number of names.
        fs, path = url_to_fs(address, use_listings_cache=False, **options)
    except Exception as err:  # implementations may raise any exception class
        raise SourceError(f"{shown_name(address)}: {_error_text(err)}") from err
    first, chained, rest = address.partition("::")
    protocol = first.partition("://")[0]
    return f"{protocol}::{rest}" if chained else f"{protocol}://", fs, str(path)


def _remote(address: str) -> Iterator[Folder]:
    if address.startswith(("http://", "https://")) and "::" not in address:
        # On a web server, only a trailing slash identifies a folder.
        yield from (
            _pages(address) if address.endswith("/") else [_folder(WEB, [AuditInput(address, address)])]
        )
        return
    store, fs, path = _open_store(address)
    try:
        about = fs.info(path)
        if about.get("type") == "file":
            yield _folder(store, [_remote_item(store, fs, str(about["name"]), about)])
            return
    except Exception as err:  # implementations may raise any exception class
        yield _problem(address, _error_text(err))
        return
    places, empty = deque([path]), True
    while places:
        place = places.popleft()
        try:
            entries = sorted(fs.ls(place, detail=True), key=lambda entry: str(entry["name"]))
        except Exception as err:
            empty = False
            yield _problem(_address(store, fs, place), _error_text(err))
            continue
        inside = place.rstrip("/") + "/" if place.strip("/") else place
        # A page may link to files outside the folder.
        entries = [entry for entry in entries if str(entry["name"]).startswith(inside)]
        below = [str(entry["name"]) for entry in entries if entry["type"] == "directory"]
        below = [name for name in below if name.rstrip("/") != place.rstrip("/")]
        if below and place.count("/") - path.count("/") >= MAX_DEPTH:
            yield _problem(_address(store, fs, place), TOO_DEEP)
        else:
            places.extendleft(reversed(below))
        items = [
            _remote_item(store, fs, str(entry["name"]), entry)
            for entry in entries
            if entry["type"] == "file" and is_model_file(str(entry["name"]))
        ]
        if items:
            empty = False
            yield _folder(store, items)
    if empty:
        yield _problem(address, NO_MODEL_FILES)


def _pages(top: str) -> Iterator[Folder]:
    """Yield the files linked from the pages of a web server, which may generate pages without end."""
    from fsspec.asyn import get_loop

    web = Web(file_system(WEB, get_client=client))
    places, empty, count, lost = deque([top]), True, 1, 0
    while places:
        place = places.popleft()
        request = with_retries(partial(web.links, place))
        try:
            links, long = asyncio.run_coroutine_threadsafe(request, get_loop()).result()
        except Exception as err:  # libraries may raise any exception class
            empty = False
            yield _problem(place, _error_text(err))
            lost = lost + 1 if isinstance(err, NotReadError) and err.verdict == "unreachable" else 0
            if lost == MAX_FAILED_PAGES and places:
                yield _problem(
                    top, f"{lost} consecutive pages could not be read; the other pages were skipped"
                )
                return
            continue
        lost = 0
        below = [link for link in links if link.endswith("/")]
        items = [AuditInput(link, link) for link in links if is_model_file(link)]
        problems = [f"it links to addresses with more than {MAX_ADDRESS:,} characters"] if long else []
        if below and place.count("/") - top.count("/") >= MAX_DEPTH:
            problems.append(TOO_DEEP)
            below = []
        if count + len(below) > MAX_PAGES:
            problems.append(
                f"{top} has more than {MAX_PAGES:,} folders; give the other folders on the command line"
            )
            below = below[: MAX_PAGES - count]
        count += len(below)
        places.extendleft(reversed(below))
        empty &= not (items or problems)
        if items:
            yield _folder(WEB, items)
        for problem in problems:
            yield _problem(place, problem)
    if empty:
        yield _problem(top, NO_MODEL_FILES)


def _error_text(err: Exception) -> str:
    cause = err.__cause__ if isinstance(err.__cause__, PermissionError) else err
    return quote(str(cause) or type(cause).__name__, 300)[1:-1]


def _address(store: str, fs: Any, path: str) -> str:
    protocol, chained, rest = store.partition("::")
    if chained and protocol in _ARCHIVES:
        return f"{protocol}://{path}::{rest}"
    address = str(fs.unstrip_protocol(path))
    return f"{protocol}::{address}" if chained else address


def _remote_item(store: str, fs: Any, path: str, about: Mapping[str, Any]) -> AuditInput:
    address = _address(store, fs, path)
    # The file system of the Hub is synchronous and sends several requests per file.
    place = str(fs.url(path)) if store == "hf://" else path
    size = about.get("size")
    return AuditInput(
        address, place, size if isinstance(size, int) and 0 <= size <= LARGEST else None, tag_of(about)
    )


def tag_of(about: Mapping[str, Any]) -> str:
    """Return the version of a file in a listing, or an empty string if there is none."""
    value = next((about[key] for key in _TAGS if about.get(key)), "")
    if isinstance(value, dict):  # a large file on the Hub
        value = value.get("sha256") or value.get("oid") or ""
    if not isinstance(value, str | int | float):
        value = getattr(value, "timestamp", lambda: "")()
    return str(value).strip('"')


def local_files(sources: Sequence[str]) -> int:
    return sum(
        sum(1 for _ in folder.items)
        for source in sources
        if os.path.isdir(source)  # noqa: PTH112
        for folder in _walk(source)
    )
