"""What ``stc check`` is asked to check: files, directories and patterns become a list of files."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE_SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"


@dataclass(frozen=True, slots=True)
class CheckInput:
    """One thing to check. ``problem`` says why there is nothing to check in it, None for a file."""

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
            if name.endswith((FILE_SUFFIX, INDEX_SUFFIX)):
                empty = False
                yield CheckInput(os.path.join(place, name))  # noqa: PTH118 - spelled as above
    yield from problems
    if empty and not problems:
        yield CheckInput(folder, f"no *{FILE_SUFFIX} or *{INDEX_SUFFIX} in this directory")
