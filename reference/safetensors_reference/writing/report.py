"""Writes reports without following symbolic links or waiting for the reader of a pipe."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .atomic import NotSavedError, not_saved, write_file

SYSTEM = ("/dev", "/dev/fd", "/proc/self/fd")


def write_report(path: Path, text: str) -> None:
    """Write ``text`` to a file (replaced atomically), or to a pipe or device. Raises NotSavedError."""
    if path.is_symlink() and os.path.dirname(os.path.abspath(path)) not in SYSTEM:  # noqa: PTH100, PTH120 - as spelled
        # In a shared folder, somebody could plant a link that redirects the output.
        raise NotSavedError(f"{path}: not saved because it is a symbolic link; give its target instead")
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
            raise NotSavedError(f"{path}: not saved because no program is reading from the pipe") from err
        raise not_saved(path, err) from err
