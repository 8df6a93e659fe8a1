"""Readers and holders that keep something for each request.

Each of them releases what it has kept when the object ends, so that a run of all variants does not suffer.
"""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from typing import Any, ClassVar

from .correct.holder import Handle, SmallHolder
from .correct.reader import READER
from .variant import named


class Keeper(SmallHolder):
    """A correct reader and holder."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self.kept: list[object] = []

    def read(self, path: Path) -> dict[str, Any]:
        return READER.read(path)

    def __del__(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class FdLeak(Keeper):
    """Leaves the file open after reading it."""

    def read(self, path: Path) -> dict[str, Any]:
        self.descriptors.append(os.open(path, os.O_RDONLY))
        return super().read(path)


class FdLeakAfterRejecting(Keeper):
    """Leaves the file open if it rejects it."""

    def read(self, path: Path) -> dict[str, Any]:
        descriptor = os.open(path, os.O_RDONLY)
        self.descriptors.append(descriptor)
        found = super().read(path)
        os.close(self.descriptors.pop())
        return found


class MemLeak(Keeper):
    """Keeps a copy of every file that it reads."""

    def read(self, path: Path) -> dict[str, Any]:
        self.kept.append(path.read_bytes())
        return super().read(path)


class MappingLeak(Keeper):
    """Maps the file, but does not remove the mapping if it rejects the file."""

    def read(self, path: Path) -> dict[str, Any]:
        with path.open("rb") as file:
            self.kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        found = super().read(path)
        self.kept.pop()
        return found


class ThreadLeak(Keeper):
    """Starts a thread for each request, and the thread does not end."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()

    def read(self, path: Path) -> dict[str, Any]:
        threading.Thread(target=self.ended.wait, daemon=True).start()
        return super().read(path)

    def __del__(self) -> None:
        self.ended.set()
        super().__del__()


class HandlesKept(Keeper):
    """Keeps each handle in a table, from which only closing it removes it."""

    def hold(self, path: Path) -> Handle:
        handle = Handle(path)
        self.kept.append(handle)
        return handle


class _NeverClosed(Handle):
    """Ends without closing its descriptor."""

    left: ClassVar[list[int]] = []

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.left.append(self.fd)

    __del__ = close


class CloseDoesNothing(Keeper):
    """Marks a handle as closed, but leaves the descriptor open."""

    handle = _NeverClosed

    def __del__(self) -> None:
        while _NeverClosed.left:
            os.close(_NeverClosed.left.pop())


class TensorsKept(Keeper):
    """Keeps every tensor that a handle has returned."""

    def hold(self, path: Path) -> Handle:
        handle = Handle(path)
        right = handle.tensor

        def tensor(name: str) -> Any:
            self.kept.append(found := right(name))
            return found

        handle.tensor = tensor  # type: ignore[method-assign]
        return handle


VARIANTS = named(globals(), "repeated", Keeper)
