"""What the tests of the writers share: reading with the official library, files and their surroundings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors

Row = tuple[str, tuple[int, ...], bytes]
"""Dtype code, shape and bytes of one tensor."""
NOBODY = 65534
"""An ordinary user."""
OLD = b"the old content"


def read_official(file: bytes) -> dict[str, Row]:
    """Read a file in memory with the official library."""
    official: Any = safetensors
    return {n: (t["dtype"], tuple(t["shape"]), bytes(t["data"])) for n, t in official.deserialize(file)}


def listing(folder: Path) -> list[str]:
    """Return the names of everything in ``folder``."""
    return sorted(path.name for path in folder.iterdir())


def untouched(path: Path) -> bool:
    """Whether the old content stands there alone."""
    return path.read_bytes() == OLD and listing(path.parent) == [path.name]


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Give up root, which no permission stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
