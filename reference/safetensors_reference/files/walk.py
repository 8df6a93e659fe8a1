"""Finds the files that arguments, lists and directories refer to, folder by folder."""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections import deque
from itertools import groupby, islice
from typing import TYPE_CHECKING

from ..rules.faults import shown_name, without_name
from .names import (
    HUB,
    NO_MODEL_FILES,
    SUFFIX,
    FileInput,
    Folder,
    SourceError,
    beside,
    is_address,
    is_index,
    is_model_file,
    is_remote,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_MODEL_FOLDER = 10_000
"""Maximum number of files in a folder with an index that is audited as one batch."""
MAX_LINE = 8192
"""Maximum length of a line in a list, in characters. Paths and addresses are shorter."""


def find_folders(sources: Sequence[str], lists: Sequence[str]) -> Iterator[Folder]:
    """Yield the files of all sources of an audit, grouped by folder and sorted.

    A source is a file, a directory or an address that fsspec can open. Raises SourceError.
    """
    for source in filter(is_address, sources):
        from .stores import open_store

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
                yield Folder.of(part, store)


def expand_paths(arguments: Sequence[str]) -> Iterator[tuple[Folder, list[FileInput]]]:
    """Yield the folders that the arguments of ``stc check`` refer to, each with the files not yet yielded.

    The arguments are expanded lazily and in order, and each file is yielded only once. A directory is
    expanded to every file below it that ``is_model_file`` accepts, in sorted order. Links to files are
    followed, but links to directories are not. A pattern (``*``, ``?``, ``[...]``, ``**``) is expanded if no
    file has exactly that name. An argument that matches no files yields a problem, because a file that was
    not checked must never look valid.
    """
    # A single directory never yields the same file twice, so the set of its file names is not needed.
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
            yield from _remote(argument) if hub else [Folder.of([FileInput(argument)])]
        except SourceError as err:
            yield Folder.problem(argument, without_name(str(err), argument))
        return
    if os.path.lexists(argument) or not any(sign in argument for sign in "*?["):
        yield from _local(argument)
        return
    names = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 - also absolute
    for name in names:
        yield from _local(name)
    if not names:
        yield Folder.problem(argument, "no file matches this pattern")


def _remote(address: str) -> Iterator[Folder]:
    # Most runs have no addresses, and importing the modules for stores takes longer than checking a file.
    from .stores import find_remote

    return find_remote(address)


def _local(name: str) -> Iterator[Folder]:
    if os.path.isdir(name):  # noqa: PTH112 - keep the spelling, "./" included
        return _walk(name)
    return iter([Folder.of([FileInput(name)])])


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
            yield Folder.problem(place, err.strerror or str(err))
            continue
        places.extendleft(sorted(below, reverse=True))
        if names:
            empty = False
            names.sort()
            has_index = any(map(is_index, names))
            # Map lazily, because a folder may contain a million names.
            yield Folder(None, map(FileInput, names), has_index, listed=True)
    if empty:
        yield Folder.problem(top, NO_MODEL_FILES)


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
    from .stores import remote_input

    return remote_input(line)


def local_files(sources: Sequence[str]) -> int:
    return sum(
        sum(1 for _ in folder.items)
        for source in sources
        if os.path.isdir(source)  # noqa: PTH112
        for folder in _walk(source)
    )
