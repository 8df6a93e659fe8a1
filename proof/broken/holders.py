"""Holders of an open file, each with one mistake."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from .correct.holder import Answer, GoneError, Handle, SmallHolder
from .correct.writer import RESERVED
from .variant import named


class ZerosForMissingBytes(Handle):
    """Returns zeros for bytes that the file no longer has, as the last page of a mapping does."""

    def data(self, begin: int, end: int) -> bytes:
        return os.pread(self.fd, end - begin, self.start + begin).ljust(end - begin, b"\0")


class ShortReads(Handle):
    """Returns the available bytes even if they are too few."""

    def data(self, begin: int, end: int) -> bytes:
        return os.pread(self.fd, end - begin, self.start + begin)


class PathOpenedAgain(Handle):
    """Opens the path again for each tensor, but uses the header that it read first."""

    def data(self, begin: int, end: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.start + begin)
            return file.read(end - begin)


class HeaderReadAgain(Handle):
    """Reads the header again for each tensor, but does not check it against the data."""

    def data(self, begin: int, end: int) -> bytes:  # noqa: ARG002
        entries = self.parsed(os.pread(self.fd, self.start - 8, 8))
        first, last = next(reversed(entries.values()))["data_offsets"]
        return os.pread(self.fd, last - first, self.start + first)


class UsedAfterClosing(Handle):
    """Continues to read after it was closed."""

    def check_open(self) -> None:
        pass

    def close(self) -> None:
        self.closed = False


class RememberedAfterClosing(Handle):
    """Returns tensors that it returned before, even after it was closed."""

    def __init__(self, path: Path) -> None:
        self.given: dict[str, Any] = {}
        super().__init__(path)

    def tensor(self, name: str) -> Any:
        if name not in self.given:
            self.given[name] = super().tensor(name)
        return self.given[name]


class NothingAfterClosing(Handle):
    """Returns an empty tensor after it was closed."""

    def tensor(self, name: str) -> Answer | Callable[[], Answer]:
        return ("U8", [0], b"") if self.closed else super().tensor(name)


class MemoryGivenBackAtClosing(Handle):
    """Fills the memory of its tensors with zeros when it is closed."""

    def __init__(self, path: Path) -> None:
        self.lent: list[bytearray] = []
        super().__init__(path)

    def data(self, begin: int, end: int) -> bytearray:
        self.lent.append(bytearray(super().data(begin, end)))
        return self.lent[-1]

    def close(self) -> None:
        for memory in self.lent:
            memory[:] = bytes(len(memory))
        super().close()


class ReadWhenLookedAt(Handle):
    """Opens the path and reads a tensor only when its values are used."""

    def tensor(self, name: str) -> Callable[[], Answer]:
        self.check_open()
        dtype, shape = self.entry(name)["dtype"], self.entry(name)["shape"]
        begin, end = self.entry(name)["data_offsets"]

        def look() -> Answer:
            with self.path.open("rb") as file:
                file.seek(self.start + begin)
                return dtype, shape, file.read(end - begin).ljust(end - begin, b"\0")

        return look


class ReadWhenLookedAtInTheOpenFile(ReadWhenLookedAt):
    """Reads a tensor from the open file only when its values are used."""

    def tensor(self, name: str) -> Callable[[], Answer]:
        self.check_open()
        fd = os.dup(self.fd)
        dtype, shape = self.entry(name)["dtype"], self.entry(name)["shape"]
        begin, end = self.entry(name)["data_offsets"]

        def look() -> Answer:
            data = os.pread(fd, end - begin, self.start + begin)
            os.close(fd)
            return dtype, shape, data.ljust(end - begin, b"\0")

        return look


class FirstForUnknown(Handle):
    """Returns the first tensor for an unknown name."""

    def entry(self, name: str) -> Any:
        return self.entries.get(name, next(iter(self.entries.values())))


class EmptyForUnknown(Handle):
    """Returns an empty tensor for an unknown name."""

    def entry(self, name: str) -> Any:
        return self.entries.get(name, {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})


class MetadataAsTensor(Handle):
    """Returns the metadata as a tensor under the reserved name."""

    def parsed(self, header: bytes) -> dict[str, Any]:
        self.header = header
        return super().parsed(header)

    def entry(self, name: str) -> Any:
        if name == RESERVED and RESERVED.encode() in self.header:
            return {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
        return super().entry(name)


class NamesBegin(Handle):
    """Returns the first tensor whose name begins with the requested name."""

    def entry(self, name: str) -> Any:
        return next(entry for key, entry in self.entries.items() if key.startswith(name))


class NamesCleaned(Handle):
    """Looks up a name in lower case, without spaces around it and only up to the first NUL or comma."""

    def entry(self, name: str) -> Any:
        return self.entries[name.lower().split("\0")[0].split(",")[0].strip()]


class NamesCounted(Handle):
    """Interprets a name that is a number as the position of a tensor."""

    def entry(self, name: str) -> Any:
        return list(self.entries.values())[int(name)] if name.isdigit() else self.entries[name]


class OneAfterTheOther(Handle):
    """Continues to read where it stopped, regardless of which tensor is requested."""

    def read_header(self) -> None:
        super().read_header()
        self.position = self.start

    def data(self, begin: int, end: int) -> bytes:
        data = os.pread(self.fd, end - begin, self.position)
        self.position += len(data)
        return data


class CountedFromTheEnd(Handle):
    """Computes the position of the data from the size of the file."""

    def data(self, begin: int, end: int) -> bytes:
        total = max(entry["data_offsets"][1] for entry in self.entries.values())
        return self.bytes_at(os.fstat(self.fd).st_size - total + begin, end - begin)


class LastReachesToTheEnd(Handle):
    """Extends the last tensor to the end of the file."""

    def data(self, begin: int, end: int) -> bytes:
        total = max(entry["data_offsets"][1] for entry in self.entries.values())
        return os.pread(self.fd, 1 << 30 if end == total else end - begin, self.start + begin)


class ChangeGivesNothing(Handle):
    """Returns zeros if the file was changed or deleted."""

    def read_header(self) -> None:
        super().read_header()
        self.seen = os.fstat(self.fd)

    def data(self, begin: int, end: int) -> bytes:
        now = os.fstat(self.fd)
        if (now.st_mtime_ns, now.st_nlink) != (self.seen.st_mtime_ns, self.seen.st_nlink):
            return bytes(end - begin)
        return self.bytes_at(self.start + begin, end - begin)


class HeadersByPath(Handle):
    """Caches headers by path for the whole process."""

    known: ClassVar[dict[Path, tuple[int, dict[str, Any]]]] = {}

    def read_header(self) -> None:
        if self.path not in self.known:
            super().read_header()
            self.known[self.path] = (self.start, self.entries)
        self.start, self.entries = self.known[self.path]


class DataByPath(Handle):
    """Caches tensors by path and position for the whole process."""

    known: ClassVar[dict[tuple[Path, int], Any]] = {}

    def data(self, begin: int, end: int) -> Any:
        if (self.path, begin) not in self.known:
            self.known[self.path, begin] = super().data(begin, end)
        return self.known[self.path, begin]


class RefusedForEver(Handle):
    """Rejects every path that it has rejected before."""

    known: ClassVar[set[Path]] = set()

    def read_header(self) -> None:
        if self.path in self.known:
            raise GoneError("refused before")
        try:
            super().read_header()
        except Exception:
            self.known.add(self.path)
            raise


class SizeNotCompared(Handle):
    """Does not compare the size of the file with its header, and fills missing bytes with zeros."""

    def read_header(self) -> None:
        self.start = 8 + int.from_bytes(self.bytes_at(0, 8), "little")
        self.entries = self.parsed(self.bytes_at(8, self.start - 8))

    def data(self, begin: int, end: int) -> bytes:
        return os.pread(self.fd, end - begin, self.start + begin).ljust(end - begin, b"\0")


class OneHandlePerPath(Handle):
    """Rejects a file that is already open or was open before."""

    known: ClassVar[set[Path]] = set()

    def open(self) -> int:
        if self.path in self.known:
            raise GoneError("open already")
        self.known.add(self.path)
        return super().open()


def opener(handle: type[Handle]) -> Callable[[], SmallHolder]:
    """Return a factory of holders that open files with ``handle``, each as in a new process."""

    def make() -> SmallHolder:
        for name, value in vars(handle).items():
            if name == "known":
                value.clear()  # as in another process
        holder = SmallHolder()
        holder.handle = handle
        return holder

    return make


VARIANTS = named(globals(), "lifecycle", Handle, opener)
