"""Small files that a fresh process is shown, so that what it does at its first file is told from the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .scratch import scratch_folder

if TYPE_CHECKING:
    from .worker import Worker

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
    """Ask for the small files, by the step if it is one of a whole file. The answers are nobody's concern."""
    with small_files() as paths:
        for path in paths:
            worker.ask(step if step in ("open", "read") else "read", path)
