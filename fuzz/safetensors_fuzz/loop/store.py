"""The folder of inputs that a run kept: read when the next one starts, so that it goes on from there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from safetensors_reference.source import read_whole

LARGEST = 256 << 20
"""Most bytes of an input that is read."""


class StoreError(Exception):
    """The folder cannot be used; the text names it and says why."""


class Store:
    """A folder of inputs, each under the first digits of its digest."""

    def __init__(self, folder: Path | None) -> None:
        """``folder`` is made when it is not there; None keeps nothing. Raises StoreError."""
        self.folder = folder
        self.written = 0
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as err:
                raise StoreError(f"{folder}: {err.strerror or err}") from err

    def __iter__(self) -> Iterator[bytes]:
        """Yield the inputs in the order of their names, which is the same everywhere. Raises StoreError."""
        for path in sorted(self.folder.glob("*.safetensors")) if self.folder is not None else ():
            try:
                yield read_whole(path, LARGEST)
            except OSError as err:
                raise StoreError(str(err)) from err

    def put(self, data: bytes) -> None:
        """Keep an input. Raises StoreError."""
        if self.folder is None:
            return
        path = self.folder / f"{hashlib.sha256(data).hexdigest()[:16]}.safetensors"
        if path.exists():
            return
        try:
            temporary = path.with_suffix(".part")
            temporary.write_bytes(data)
            temporary.replace(path)
        except OSError as err:
            raise StoreError(f"{path}: {err.strerror or err}") from err
        self.written += 1
