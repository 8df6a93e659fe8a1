"""Finds the files that arguments, lists and directories refer to, folder by folder, and shows progress."""

from __future__ import annotations

import glob
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from threading import Thread
from typing import TYPE_CHECKING, Self

from ..text import quote, shown_name, without_name
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
from .neighbours import UNFINISHED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

MAX_MODEL_FOLDER = 10_000
"""Maximum number of files in a folder with an index that is audited as one batch."""
MAX_LINE = 8192
"""Maximum length of a line in a list, in characters. Paths and addresses are shorter."""
REFRESH = 0.1
"""Number of seconds between two updates of a progress bar."""


def find_folders(sources: Sequence[str], lists: Sequence[str]) -> Iterator[Folder]:
    """Yield the files of all sources of an audit, grouped by folder and sorted. Raises SourceError."""
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
    """Yield the folders that the arguments of ``stc check`` refer to, with the files to check.

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
    places, empty, unfinished = deque([top]), True, ""
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
                    elif entry.name.endswith(UNFINISHED):
                        unfinished = f"; {quote(entry.name)} in it looks like an unfinished download"
        except OSError as err:
            empty = False
            yield Folder.problem(place, err.strerror or str(err))
            continue
        places.extendleft(sorted(below, reverse=True))
        if names:
            empty = False
            names.sort()
            has_index = any(map(is_index, names))
            # Create the items lazily, because a folder may contain a million names.
            yield Folder(None, map(FileInput, names), has_index, listed=True)
    if empty:
        yield Folder.problem(top, NO_MODEL_FILES + unfinished)


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


class ProgressBar:
    """Progress bar on standard error; print results only while it is ``hidden``."""

    def __init__(self, sources: Sequence[str] = (), console: Console | None = None) -> None:
        self._sources, self._console = sources, console
        self._terminal = sys.stderr.isatty() if console is None else console.is_terminal
        self._bar: Progress | None = None
        self._done = 0
        self._total: int | None = None
        self._began = self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal and self._sources:
            Thread(target=self._count, daemon=True).start()
        return self

    def _count(self) -> None:
        # A thread counts the files of local directories, to estimate the remaining time.
        folders = (folder for source in self._sources if os.path.isdir(source) for folder in _walk(source))  # noqa: PTH112
        self._total = sum(sum(1 for _ in folder.items) for folder in folders)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextmanager
    def hidden(self, *, to_stderr: bool = False) -> Iterator[None]:
        if self._bar is None or not (to_stderr or sys.stdout.isatty()):
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            sys.stdout.flush()
            self._bar.start()

    def advance(self, files: int = 1) -> None:
        """Count finished files. The bar does not appear before the second file is finished."""
        self._done += files
        now = time.monotonic()
        if not self._terminal or now - self._drawn < REFRESH:
            return
        if self._bar is None and self._done > 1:
            self._bar = _bar(self._console)
            self._bar.start()
        if self._bar is not None:
            self._drawn = now
            rate = self._done / (now - self._began)
            task = self._bar.task_ids[0]
            self._bar.update(task, total=self._total, completed=self._done, rate=rate, refresh=True)


def _bar(console: Console | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    # By default, rich redirects standard output to standard error, even if standard output is a file.
    bar = Progress(
        TextColumn("checked {task.completed:,} files"),
        BarColumn(),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=None, rate=0.0)
    return bar
