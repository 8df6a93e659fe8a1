"""Inputs of ``stc check``: files, directories and patterns become a list of files."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..sharded.names import INDEX_SUFFIX, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class CheckInput:
    """A file to check, or with a ``problem`` the reason why there is nothing to check under this name."""

    name: str
    problem: str | None = None


def find_inputs(arguments: Iterable[str]) -> list[CheckInput]:
    """Expand the arguments, in their order; a file that is reached twice is listed once.

    A directory stands for every ``*.safetensors`` and ``*.safetensors.index.json`` below it, in sorted order.
    Files behind symbolic links are taken, linked directories are not entered. A pattern (``*``, ``?``,
    ``[...]``, ``**``) is expanded when no file has exactly that name. What leads to no file is listed with a
    problem: something that was not checked must never look like something without faults.
    """
    found: dict[CheckInput, None] = {}
    for argument in arguments:
        for item in _expand(argument):
            found.setdefault(item)
    return list(found)


def _expand(argument: str) -> Iterator[CheckInput]:
    if not os.path.lexists(argument) and any(sign in argument for sign in "*?["):
        names = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 - also absolute
        if not names:
            yield CheckInput(argument, "no file matches this pattern")
    else:
        names = [argument]
    for name in names:
        if os.path.isdir(name):  # noqa: PTH112 - a name must stay as it was spelled, "./" included
            yield from _walk(name)
        else:
            yield CheckInput(name)


def _walk(folder: str) -> Iterator[CheckInput]:
    problems: list[CheckInput] = []

    def refused(err: OSError) -> None:
        problems.append(CheckInput(str(err.filename), err.strerror or str(err)))

    empty = True
    for place, folders, files in os.walk(folder, onerror=refused):
        folders.sort()
        for name in sorted(files):
            if name.endswith((SUFFIX, INDEX_SUFFIX)):
                empty = False
                yield CheckInput(os.path.join(place, name))  # noqa: PTH118 - spelled as above
    yield from problems
    if empty and not problems:
        yield CheckInput(folder, f"no *{SUFFIX} or *{INDEX_SUFFIX} in this directory")
