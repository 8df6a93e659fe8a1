"""A folder for the files of a step, which a tested program may spoil in any way."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Make an empty folder for the time of the block; the ``purpose`` stands in its name.

    It goes at the end whatever became of it: deleted, a link (what that points to stays), nested too deep.
    """
    made = tempfile.TemporaryDirectory(prefix=f"safetensors-{purpose}-", ignore_cleanup_errors=True)
    folder = Path(made.name)
    try:
        yield folder
    finally:
        if folder.is_symlink() or not folder.is_dir():
            with contextlib.suppress(OSError):
                folder.unlink()  # before shutil opens it: a pipe would never let it go on
        try:
            made.cleanup()
        except RecursionError:  # shutil goes down by recursion before Python 3.13
            subprocess.run(["rm", "-rf", "--", str(folder)], check=False, stderr=subprocess.DEVNULL)
