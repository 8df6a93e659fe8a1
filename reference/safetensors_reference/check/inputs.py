"""Expands the arguments of ``stc check`` into files and models."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from ..files.names import MODEL_FILES, find_models, is_index, is_model_file
from ..files.remote import HUB, is_remote, remote_names
from ..model.index import SUFFIX
from ..rules.faults import without_name
from ..source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_EMPTY = f"no {MODEL_FILES} in this directory"


@dataclass(frozen=True, slots=True)
class CheckInput:
    """A file to check.

    ``problem`` says why the file cannot be checked. ``member`` is True if the file may belong to a model.
    """

    name: str
    problem: str | None = None
    member: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ModelInput:
    """Names of the files in a directory that belong to models. It is yielded after those files."""

    folder: str
    names: tuple[str, ...]


def find_inputs(arguments: Iterable[str]) -> Iterator[CheckInput]:
    return (item for item in expand_paths(list(arguments)) if isinstance(item, CheckInput))


def expand_paths(arguments: Sequence[str]) -> Iterator[CheckInput | ModelInput]:
    """Expand the arguments lazily and in order, and yield each file only once.

    A directory stands for every file below it that ``is_model_file`` accepts, in sorted order. Links to files
    are followed, but links to directories are not. A pattern (``*``, ``?``, ``[...]``, ``**``) is expanded if
    no file has exactly that name. An argument that matches no files yields a problem, because a file that was
    not checked must never look valid.
    """
    # A single argument never yields the same file twice, so a tree of millions of files needs no set.
    seen: set[CheckInput | ModelInput] | None = set() if len(arguments) > 1 else None
    for argument in arguments:
        for item in _expand(argument):
            if seen is not None:
                if item in seen:
                    continue
                seen.add(item)
            yield item


def _expand(argument: str) -> Iterator[CheckInput | ModelInput]:
    if is_remote(argument):
        yield from _remote(argument)
        return
    if not os.path.lexists(argument) and any(sign in argument for sign in "*?["):
        names = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 - also absolute
        if not names:
            yield CheckInput(argument, "no file matches this pattern")
    else:
        names = [argument]
    for name in names:
        if os.path.isdir(name):  # noqa: PTH112 - keep the spelling, "./" included
            yield from _walk(name)
        else:
            yield CheckInput(name)


def _walk(folder: str) -> Iterator[CheckInput | ModelInput]:
    problems: list[CheckInput] = []

    def refused(err: OSError) -> None:
        problems.append(CheckInput(str(err.filename), err.strerror or str(err)))

    empty = True
    for place, folders, files in os.walk(folder, onerror=refused):
        folders.sort()
        for item in _folder(place, sorted(files), os.sep):
            empty = False
            yield item
    yield from problems
    if empty and not problems:
        yield CheckInput(folder, _EMPTY)


def _remote(address: str) -> Iterator[CheckInput | ModelInput]:
    if not address.startswith(HUB) or address.endswith(SUFFIX) or is_index(address):
        yield CheckInput(address)
        return
    try:
        names = remote_names(address, is_model_file)
    except UnreadableError as err:
        yield CheckInput(address, without_name(str(err), address))
        return
    empty = True
    for place, group in groupby(names, key=lambda name: name.rpartition("/")[0]):
        for item in _folder(place, [name.rpartition("/")[2] for name in group], "/"):
            empty = False
            yield item
    if empty:
        yield CheckInput(address, _EMPTY)


def _folder(place: str, files: Iterable[str], separator: str) -> Iterator[CheckInput | ModelInput]:
    # Yield the files first, so that their faults are printed before those of the model.
    files = [name for name in files if is_model_file(name)]
    members = {name for model in find_models(files) for name in model.files}
    start = place if place.endswith(separator) else place + separator
    for name in files:
        yield CheckInput(start + name, member=name in members)
    if members:
        yield ModelInput(place, tuple(sorted(members)))
