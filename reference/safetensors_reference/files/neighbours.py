"""Finds what exists in place of a missing file: a dangling link, an unfinished download or a similar name."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import islice

from ..text import quote

UNFINISHED = (".incomplete", ".part", ".partial", ".crdownload", ".aria2", ".download")
"""Endings that browsers and download programs append to the names of files that are not complete."""
MAX_NAMES = 100_000
# A copy has a number before its suffix, and the Hub client inserts a digest before ".incomplete".
_COPY = re.compile(r" ?\([0-9]{1,3}\)(?=\.[^.]*\Z)")
_DIGEST = re.compile(r"\.[0-9a-f]{8,64}\Z")


def describe_missing(path: str) -> str:
    """Return a clause that says what exists in place of the missing file ``path``, or an empty string."""
    folder, name = os.path.split(path)
    try:
        target = os.readlink(path)  # noqa: PTH115
    except (OSError, ValueError):
        return _beside(folder or os.curdir, name)
    text = f"; it is a symbolic link to {quote(target)}, which does not exist"
    # The link may lead to any folder, so that folder is not listed.
    place = os.path.join(folder, target)  # noqa: PTH118 - keep the spelling
    for ending in UNFINISHED:
        if os.path.lexists(place + ending):
            return f"{text}; {quote(os.path.basename(place) + ending)} is an unfinished download of it"  # noqa: PTH119
    return text


def _beside(folder: str, name: str) -> str:
    try:
        names = _names(folder, os.stat(folder).st_mtime_ns)  # noqa: PTH116
    except (OSError, ValueError):
        return ""
    for other in names.get(_plain(name), ()):
        if other.endswith(UNFINISHED):
            return f"; the folder contains {quote(other)}, an unfinished download"
        if other != name:
            same = "differs only in case" if other.casefold() == name.casefold() else "may be a copy of it"
            return f"; the folder contains {quote(other)}, which {same}"
    return ""


def _plain(name: str) -> str:
    ending = next((ending for ending in UNFINISHED if name.endswith(ending)), None)
    if ending is not None:
        name = _DIGEST.sub("", name.removesuffix(ending))
    return _COPY.sub("", name).casefold()


@lru_cache(maxsize=4)
def _names(folder: str, changed: int) -> dict[str, list[str]]:  # noqa: ARG001 - part of the key
    """Return the names in a folder by complete name, cached because many files of a model may be missing."""
    out: dict[str, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in islice(entries, MAX_NAMES):
            out.setdefault(_plain(entry.name), []).append(entry.name)
    return {plain: sorted(names) for plain, names in out.items()}
