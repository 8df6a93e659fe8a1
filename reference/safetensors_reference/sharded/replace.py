"""Replacing several files at once, as far as a file system can: all of them or, after a failure, none."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING, Self

from ..writing.atomic import NotSavedError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


def check_target(path: Path) -> None:
    """Raise NotSavedError when something other than a file or a symbolic link stands at ``path``."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    # A directory would be moved and deleted with everything in it.
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise NotSavedError(f"{path}: not saved: not a regular file")


class Replacing:
    """Moves files to their names; what stood there is put back when the ``with`` block fails.

    What is replaced waits in the directory ``aside``, on the same file system, and is deleted when the block
    succeeds. It stays there only if it cannot be put back. A symbolic link is replaced and not followed: in
    the caches of the Hub it leads to a file that other revisions share.
    """

    def __init__(self, aside: Path) -> None:
        self._aside = aside
        self._done: list[tuple[Path, bool]] = []

    def __enter__(self) -> Self:
        self._aside.mkdir()
        return self

    def remove(self, path: Path) -> None:
        """Take away what stands at ``path``, if anything does. Raises NotSavedError unless it is a file."""
        check_target(path)
        existed = os.path.lexists(path)
        # Noted before it is done, because an interrupt may come in between.
        self._done.append((path, existed))
        if existed:
            path.replace(self._aside / path.name)

    def move(self, source: Path, path: Path) -> None:
        """Put ``source`` in the place of ``path``."""
        self.remove(path)
        source.replace(path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            shutil.rmtree(self._aside, ignore_errors=True)
            return
        # In reverse, so that what was taken away first comes back when all the rest is there again.
        for path, existed in reversed(self._done):
            old = self._aside / path.name
            if os.path.lexists(old):
                old.replace(path)
            elif not existed:
                path.unlink(missing_ok=True)
        self._aside.rmdir()
