"""Writers that fail if several processes save to one path at the same time.

They do not depend on chance: each waits until another process has come equally far.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from pathlib import Path

from .correct.writer import SmallWriter
from .variant import named

PATIENCE = 1.0
"""Seconds that a process waits for another one."""


class Rival(SmallWriter):
    """A correct writer."""

    def __init__(self) -> None:
        self._meeting = multiprocessing.get_context("fork").Barrier(2)

    def meet(self) -> None:
        """Wait for a second process."""
        with contextlib.suppress(threading.BrokenBarrierError):  # the other process has failed already
            self._meeting.wait(PATIENCE)


class FixedTemp(Rival):
    """Uses the same temporary name in all processes."""

    def temporary_name(self, target: Path) -> str:
        return f"{target.name}.tmp"

    def put(self, path: Path, data: bytes) -> None:
        super().put(path, data)
        self.meet()


class SecondSaverGivesUp(Rival):
    """Rejects a save while another process saves to the same path."""

    def store(self, path: Path, data: bytes) -> None:
        lock = path.with_name(f"{path.name}.lock")
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            self.meet()
            raise
        self.meet()
        super().store(path, data)
        lock.unlink()


class TruncatesThenAppends(Rival):
    """Truncates the target, and then appends to it."""

    def store(self, path: Path, data: bytes) -> None:
        path.write_bytes(b"")
        self.meet()
        with path.open("ab") as file:
            file.write(data)


class LeavesTheTemporaryFile(Rival):
    """Leaves its temporary file behind if the target has changed in the meantime."""

    def store(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(self.temporary_name(path))
        self.put(temporary, data)
        self.meet()
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        temporary.unlink()


class KeepsTheFirst(Rival):
    """Puts the tensors of the process that saves first under the names of the others."""

    def put(self, path: Path, data: bytes) -> None:
        first = path.with_name(path.name.partition(".")[0] + ".first")
        try:
            with first.open("xb") as file:
                file.write(data)
            self.meet()
        except FileExistsError:
            self.meet()
            start = 8 + int.from_bytes(data[:8], "little")
            data = data[:start] + first.read_bytes()[start:].ljust(len(data) - start)[: len(data) - start]
            first.unlink(missing_ok=True)
        super().put(path, data)


VARIANTS = named(globals(), "contended", Rival)
