"""A small and correct holder of an open file. Every step is a method, so that a variant can break it.

It checks the header when it opens the file, keeps the file open, and reads each tensor into memory of its
own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .writer import RESERVED

Answer = tuple[str, list[int], Any]


class GoneError(Exception):
    """The requested data is not available."""


class Handle:
    """A file that is kept open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closed = False
        self.fd = self.open()
        self.entries: dict[str, Any] = {}
        self.start = 0
        self.read_header()

    def open(self) -> int:
        return os.open(self.path, os.O_RDONLY)

    def read_header(self) -> None:
        """Read the header, and check only what matters for the files in these cases."""
        self.start = 8 + int.from_bytes(self.bytes_at(0, 8), "little")
        self.entries = self.parsed(self.bytes_at(8, self.start - 8))
        end = max((entry["data_offsets"][1] for entry in self.entries.values()), default=0)
        if os.fstat(self.fd).st_size != self.start + end:
            raise GoneError("the size of the file does not match its header")

    def parsed(self, header: bytes) -> dict[str, Any]:
        return {name: entry for name, entry in json.loads(header).items() if name != RESERVED}

    def tensor(self, name: str) -> Answer | Callable[[], Answer]:
        self.check_open()
        entry = self.entry(name)
        begin, end = entry["data_offsets"]
        return entry["dtype"], entry["shape"], self.data(begin, end)

    def check_open(self) -> None:
        if self.closed:
            raise GoneError("the file is closed")

    def entry(self, name: str) -> Any:
        return self.entries[name]

    def data(self, begin: int, end: int) -> Any:
        return self.bytes_at(self.start + begin, end - begin)

    def bytes_at(self, start: int, count: int) -> bytes:
        """Read ``count`` bytes. Raises GoneError if the file contains fewer."""
        data = os.pread(self.fd, count, start)
        if len(data) != count:
            raise GoneError("the file became shorter")
        return data

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self.fd)

    def __del__(self) -> None:
        """Close the file if the caller has not closed it."""
        if not getattr(self, "closed", True) and hasattr(self, "fd"):
            self.close()


class SmallHolder:
    """Opens files with ``hold`` and ``share``."""

    handle: type[Handle] = Handle

    def hold(self, path: Path) -> Handle:
        """Open a file. Raises GoneError, OSError and ValueError."""
        return self.handle(path)

    def share(self, path: Path) -> Handle:
        """Open a file for several threads and processes: each read specifies its own position."""
        return self.hold(path)
