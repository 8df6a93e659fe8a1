"""Files and folders for tested programs, which may spoil them in any way."""

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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .worker import Worker


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Make an empty folder for the time of the block; the ``purpose`` stands in its name.

    It goes at the end, that of this process at the latest, whatever became of it.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"safetensors-{purpose}-"))
    removal = partial(remove, folder)
    atexit.register(removal)
    try:
        yield folder
    finally:
        atexit.unregister(removal)
        removal()


def remove(folder: Path) -> None:
    """Remove a folder and all in it as far as that can be done, following no link; never raises.

    It may be deleted, or replaced by a link or a pipe. Folders in it may be nested so deep that nobody can
    walk through them recursively: each is moved to the top before it is looked into.
    """
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
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(folder / secrets.token_hex(16))
                    Path(entry.path).rename(waiting[-1])
                else:
                    Path(entry.path).unlink()
        with contextlib.suppress(OSError):
            current.rmdir()
    with contextlib.suppress(OSError):
        folder.rmdir()


_HEADER = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   '
VALID = len(_HEADER).to_bytes(8, "little") + _HEADER + b"*"
"""A valid file of one tensor of one byte."""
BROKEN = b""


@contextmanager
def small_files() -> Iterator[tuple[str, str]]:
    """Make a valid file and a broken one for the time of the block; gives their paths."""
    with scratch_folder("small") as folder:
        paths = [folder / f"{name}.safetensors" for name in ("valid", "broken")]
        for path, content in zip(paths, (VALID, BROKEN), strict=True):
            path.write_bytes(content)
        yield str(paths[0]), str(paths[1])


def warm_up(worker: Worker, step: str) -> None:
    """Ask for the small files, by the step if it is one of a whole file. The answers are not used."""
    with small_files() as paths:
        for path in paths:
            worker.ask(step if step in ("open", "read") else "read", path)
