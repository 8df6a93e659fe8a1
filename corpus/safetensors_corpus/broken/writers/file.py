"""Writers with one mistake each: how the file gets to its place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...writing import GivenTensor
from ..correct.writer import Row, SmallWriter, variants


class TargetTruncatedFirst(SmallWriter):
    """Opens the target and writes into it, piece by piece."""

    def write(self, path: Path, tensors: Sequence[GivenTensor], metadata: Any) -> None:
        path.write_bytes(b"")
        super().write(path, tensors, metadata)

    def store(self, path: Path, data: bytes) -> None:
        with path.open("wb", buffering=0) as file:
            for start in range(0, len(data), 1024):
                file.write(data[start : start + 1024])


class SourceTruncatedFirst(SmallWriter):
    """Empties the target before it reads what it was to save."""

    def resave(self, path: Path) -> None:
        rows = self.loaded(path.read_bytes())
        path.write_bytes(b"")
        late = path.read_bytes()
        self.store(
            path,
            self.file([Row(r.name, r.dtype, r.shape, late.ljust(len(r.data), b"\0")) for r in rows], None),
        )


class OldFileNotCut(SmallWriter):
    """Writes into the old file and leaves what stood behind."""

    def store(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(data)


class ShortOldFileKept(SmallWriter):
    """Takes an old file of the size that is needed, or a smaller one, for the new one."""

    def store(self, path: Path, data: bytes) -> None:
        if not (path.exists() and 0 < path.stat().st_size <= len(data)):
            super().store(path, data)


class TemporaryFileLeft(SmallWriter):
    """Leaves its temporary file behind, whether it succeeds or not."""

    def store(self, path: Path, data: bytes) -> None:
        self.put(path.with_name("leftover.part"), data[:64])
        super().store(path, data)

    def clean(self, temporary: Path) -> None:
        pass


class PrivateMode(SmallWriter):
    """Leaves the file with the mode of a temporary one."""

    def store(self, path: Path, data: bytes) -> None:
        super().store(path, data)
        path.chmod(0o600)


class LinkReplaced(SmallWriter):
    """Puts a regular file in the place of a symbolic link."""

    def store(self, path: Path, data: bytes) -> None:
        if path.is_symlink():
            path.unlink()
        super().store(path, data)


class EmptyFileInANewFolder(SmallWriter):
    """Makes the missing folder and an empty file in it, and fails then."""

    def store(self, path: Path, data: bytes) -> None:
        if not path.parent.exists():
            path.parent.mkdir()
            path.write_bytes(b"")
            raise FileNotFoundError(path)
        super().store(path, data)


VARIANTS = variants(globals(), __name__)
