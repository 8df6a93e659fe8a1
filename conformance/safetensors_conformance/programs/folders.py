"""Create temporary folders, and remove them regardless of what a program left in them."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Create an empty folder with ``purpose`` in its name for the duration of the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"safetensors-{purpose}-"))
    removal = partial(remove, folder)
    atexit.register(removal)
    try:
        yield folder
    finally:
        atexit.unregister(removal)
        removal()


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove(folder: Path) -> None:
    """Remove a folder and its contents as far as possible, without following links. Never raises.

    A program may still be running and may replace any folder by a link, so only open folders are used.
    """
    with contextlib.suppress(OSError):
        folder.unlink()
    try:
        top = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        waiting = _sweep(top, top)
        while waiting:
            name = waiting.pop()
            with contextlib.suppress(OSError):
                current = os.open(name, _FOLDER, dir_fd=top)
                try:
                    waiting += _sweep(current, top)
                finally:
                    os.close(current)
            for removal in (os.rmdir, os.unlink):  # a program may have put a link there
                with contextlib.suppress(OSError):
                    removal(name, dir_fd=top)
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _sweep(folder: int, top: int) -> list[str]:
    """Remove the files of a folder, move its subfolders to ``top``, and return the names that these have."""
    moved = []
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:  # a folder, which may be nested too deeply for recursion
            new = name if folder == top else secrets.token_hex(16)
            with contextlib.suppress(OSError):
                _make_removable(name, folder)
                if folder != top:
                    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
                moved.append(new)
    return moved


def _make_removable(name: str, folder: int) -> None:
    """Let the owner change a subfolder whose permissions a program removed, where this needs no path."""
    if not hasattr(os, "O_PATH"):
        return
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(0o700)
    finally:
        os.close(descriptor)
