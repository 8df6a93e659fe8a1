"""Walks directories, stores and web pages, and yields their files folder by folder."""

from __future__ import annotations

import asyncio
import glob
import os
import stat
import sys
from collections import deque
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from ..rules.faults import shown_name, without_name
from .names import (
    HUB,
    MODEL_FILES,
    SUFFIX,
    WEB,
    FileInput,
    beside,
    is_address,
    is_index,
    is_model_file,
    is_remote,
)
from .reading import NotReadError, with_retries
from .stores import WEB_STORE, SourceError, address_of, error_text, file_system, listed_input, open_store
from .web import MAX_ADDRESS, Web, client

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_MODEL_FOLDER = 10_000
"""Maximum number of files in a folder with an index that is audited as one batch."""
NO_MODEL_FILES = f"contains no {MODEL_FILES}"
MAX_DEPTH = 64
TOO_DEEP = f"more than {MAX_DEPTH} nested folders; give deeper folders on the command line"
MAX_PAGES = 100_000
MAX_FAILED_PAGES = 10
MAX_LINE = 8192
"""Maximum length of a line in a list, in characters. Paths and addresses are shorter."""


class Folder(NamedTuple):
    """Files of one folder, sorted by name.

    ``store`` is None for local files. ``listed`` is True if the items are all model files in the folder.
    """

    store: str | None
    items: Iterable[FileInput]
    has_index: bool
    listed: bool = False


def find_folders(sources: Sequence[str], lists: Sequence[str]) -> Iterator[Folder]:
    """Yield the files of all sources of an audit, grouped by folder and sorted.

    A source is a file, a directory or an address that fsspec can open. Raises SourceError.
    """
    for source in filter(is_address, sources):
        open_store(source)  # reports an unusable address before any work begins
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
        yield from _remote(source) if is_address(source) else _local(source)
    for name in lists:
        pairs = map(_item, _lines(name))
        for (store, _), group in groupby(
            pairs, key=lambda pair: (pair[0], pair[1].address.rpartition("/")[0])
        ):
            items = (item for _, item in group)
            while part := list(islice(items, MAX_MODEL_FOLDER)):
                yield _folder(store, part)


def expand_paths(arguments: Sequence[str]) -> Iterator[tuple[Folder, list[FileInput]]]:
    """Yield the folders that the arguments of ``stc check`` stand for, each with its new files.

    The arguments are expanded lazily and in order, and each file is yielded only once. A directory stands for
    every file below it that ``is_model_file`` accepts, in sorted order. Links to files are followed, but
    links to directories are not. A pattern (``*``, ``?``, ``[...]``, ``**``) is expanded if no file has
    exactly that name. An argument that matches no files yields a problem, because a file that was not checked
    must never look valid.
    """
    # A single directory never yields the same file twice, so a tree of millions of files needs no set.
    single = len(arguments) == 1 and os.path.isdir(arguments[0])  # noqa: PTH112
    seen: set[tuple[str, str]] | None = None if single else set()
    for argument in arguments:
        for folder in _expand(argument):
            items = list(folder.items)
            new = items
            if seen is not None:
                place = beside(items[0].address, ""), ""
                if folder.listed and place in seen:
                    continue
                new = [item for item in items if (item.address, item.problem) not in seen]
                seen.update((item.address, item.problem) for item in new)
                if folder.listed:
                    seen.add(place)
            yield folder._replace(items=items), new


def find_inputs(arguments: Sequence[str]) -> Iterator[FileInput]:
    return (item for _, items in expand_paths(arguments) for item in items)


def _expand(argument: str) -> Iterator[Folder]:
    if is_remote(argument):
        hub = argument.startswith(HUB) and not (argument.endswith(SUFFIX) or is_index(argument))
        try:
            yield from _remote(argument) if hub else [_folder(WEB_STORE, [FileInput(argument)])]
        except SourceError as err:
            yield _problem(argument, without_name(str(err), argument))
        return
    if os.path.lexists(argument) or not any(sign in argument for sign in "*?["):
        yield from _local(argument)
        return
    names = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 - also absolute
    for name in names:
        yield from _local(name)
    if not names:
        yield _problem(argument, "no file matches this pattern")


def _folder(store: str | None, items: list[FileInput], *, listed: bool = False) -> Folder:
    return Folder(store, items, any(item.is_index for item in items), listed)


def _local(name: str) -> Iterator[Folder]:
    if os.path.isdir(name):  # noqa: PTH112 - keep the spelling, "./" included
        return _walk(name)
    return iter([_folder(None, [FileInput(name)])])


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
            yield Folder(None, map(FileInput, names), has_index, listed=True)
    if empty:
        yield _problem(top, NO_MODEL_FILES)


def _problem(address: str, why: str) -> Folder:
    return Folder(None, [FileInput(address, problem=why)], False)


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


def _item(line: str) -> tuple[str | None, FileInput]:
    if not is_address(line):
        return None, FileInput(line)
    if line.startswith(WEB) and "::" not in line:
        return WEB_STORE, FileInput(line, line)
    try:
        store, fs, path = open_store(line)
        return store, listed_input(store, fs, path, {})
    except SourceError as err:
        return None, FileInput(line, problem=str(err))


def _remote(address: str) -> Iterator[Folder]:
    if address.startswith(WEB) and "::" not in address:
        # On a web server, only a trailing slash identifies a folder.
        yield from (
            _pages(address) if address.endswith("/") else [_folder(WEB_STORE, [FileInput(address, address)])]
        )
        return
    store, fs, path = open_store(address)
    try:
        about = fs.info(path)
        if about.get("type") == "file":
            yield _folder(store, [listed_input(store, fs, str(about["name"]), about)])
            return
    except Exception as err:  # implementations may raise any exception class
        yield _problem(address, error_text(err))
        return
    places, empty = deque([path]), True
    while places:
        place = places.popleft()
        try:
            entries = sorted(fs.ls(place, detail=True), key=lambda entry: str(entry["name"]))
        except Exception as err:
            empty = False
            yield _problem(address_of(store, fs, place), error_text(err))
            continue
        inside = place.rstrip("/") + "/" if place.strip("/") else place
        # A page may link to files outside the folder.
        entries = [entry for entry in entries if str(entry["name"]).startswith(inside)]
        below = [str(entry["name"]) for entry in entries if entry["type"] == "directory"]
        below = [name for name in below if name.rstrip("/") != place.rstrip("/")]
        if below and place.count("/") - path.count("/") >= MAX_DEPTH:
            yield _problem(address_of(store, fs, place), TOO_DEEP)
        else:
            places.extendleft(reversed(below))
        items = [
            listed_input(store, fs, str(entry["name"]), entry)
            for entry in entries
            if entry["type"] == "file" and is_model_file(str(entry["name"]))
        ]
        if items:
            empty = False
            yield _folder(store, items, listed=True)
    if empty:
        yield _problem(address, NO_MODEL_FILES)


def _pages(top: str) -> Iterator[Folder]:
    """Yield the files linked from the pages of a web server, which may generate pages without end."""
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
            yield _problem(place, error_text(err))
            lost = lost + 1 if isinstance(err, NotReadError) and err.verdict == "unreachable" else 0
            if lost == MAX_FAILED_PAGES and places:
                yield _problem(
                    top, f"{lost} consecutive pages could not be read; the other pages were skipped"
                )
                return
            continue
        lost = 0
        below = [link for link in links if link.endswith("/")]
        items = [FileInput(link, link) for link in links if is_model_file(link)]
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
            yield _folder(WEB_STORE, items)
        for problem in problems:
            yield _problem(place, problem)
    if empty:
        yield _problem(top, NO_MODEL_FILES)


def local_files(sources: Sequence[str]) -> int:
    return sum(
        sum(1 for _ in folder.items)
        for source in sources
        if os.path.isdir(source)  # noqa: PTH112
        for folder in _walk(source)
    )
