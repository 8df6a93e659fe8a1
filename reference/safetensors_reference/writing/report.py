"""Writes reports: never through a symbolic link, and without waiting for a pipe's reader."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .atomic import NotSavedError, not_saved, write_file

SYSTEM = ("/dev", "/dev/fd", "/proc/self/fd")


def write_report(path: Path, text: str) -> None:
    """Write ``text`` to a file, replaced atomically, or to a pipe or device. Raises NotSavedError."""
    if path.is_symlink() and os.path.dirname(os.path.abspath(path)) not in SYSTEM:  # noqa: PTH100, PTH120 - as spelled
        # In a shared folder, a planted link could redirect the write.
        raise NotSavedError(f"{path}: not saved: it is a symbolic link; name its target")
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
            raise NotSavedError(f"{path}: not saved: the pipe has no reader") from err
        raise not_saved(path, err) from err
