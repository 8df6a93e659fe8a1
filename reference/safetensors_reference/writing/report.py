"""Files that a command writes about others: never through a link, and without waiting for a reader."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .atomic import NotSavedError, not_saved, write_file

SYSTEM = ("/dev", "/dev/fd", "/proc/self/fd")
"""Folders of links that the system made, such as /dev/stdout."""


def write_report(path: Path, text: str) -> None:
    """Write a text to a file, which it replaces as a whole, or to a pipe or device. Raises NotSavedError."""
    if path.is_symlink() and os.path.dirname(os.path.abspath(path)) not in SYSTEM:  # noqa: PTH100, PTH120 - as spelled
        # Where others put files, it may lead to one that they cannot write themselves.
        raise NotSavedError(f"{path}: not saved: it is a link; name the file that it leads to")
    if path.is_file() or not path.exists():
        write_file(path, [text.encode()])
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(fd, True)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as err:
        if err.errno == errno.ENXIO:
            raise NotSavedError(f"{path}: not saved: nobody reads from this pipe") from err
        raise not_saved(path, err) from err
