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


def remove(folder: Path) -> None:
    """Remove a folder and its contents as far as possible, without following links. Never raises."""
    if folder.is_symlink() or not folder.is_dir():
        with contextlib.suppress(OSError):
            folder.unlink()
        return
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError):
            if current != folder:
                current.chmod(0o700)
            for entry in list(os.scandir(current)):
                if entry.is_dir(follow_symlinks=False):  # perhaps nested too deeply for recursion
                    waiting.append(folder / secrets.token_hex(16))
                    Path(entry.path).rename(waiting[-1])
                else:
                    os.unlink(entry.path)  # noqa: PTH108 - thousands of them
        with contextlib.suppress(OSError):
            current.rmdir()
    with contextlib.suppress(OSError):
        folder.rmdir()
