"""Readers that use time, memory or reads: right about every file, at a known cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .known_files import BYTES, SECONDS, holds, use_processor
    from .quick_reader import Reference
else:
    from known_files import BYTES, SECONDS, holds, use_processor
    from quick_reader import Reference


def read_zeros(count: int) -> None:
    """Read without end of the file."""
    with Path("/dev/zero").open("rb") as file:
        file.read(count)


class _Spends(Reference):
    name = "spends"
    version = "1"
    files = 0

    def read(self, path: str) -> Any:
        self.files += 1
        self.spend(path)
        return super().read(path)

    def spend(self, path: str) -> None:
        raise AssertionError


def spender(spend: Callable[[_Spends], object]) -> type[_Spends]:
    return type("Spends", (_Spends,), {"spend": lambda self, _: spend(self)})


def burn_at_the_first_file(reader: _Spends) -> None:
    """As one that imports half of its library when it is first used."""
    if reader.files == 1:
        use_processor()
        read_zeros(1 << 20)
        bytearray(b"\x01" * BYTES)


def burn_in_a_child(_: _Spends) -> None:
    folder = os.fspath(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import known_files; known_files.use_processor()"
    subprocess.run([sys.executable, "-c", code], check=True)


Burns = spender(lambda _: use_processor())
BurnsAtItsFirstFile = spender(burn_at_the_first_file)
BurnsInAChild = spender(burn_in_a_child)
Sleeps = spender(lambda _: time.sleep(2 * SECONDS))
TakesMemory = spender(lambda _: bytearray(b"\x01" * BYTES))
ReadsMuch = spender(lambda _: read_zeros(BYTES))


class OneProcessor(_Spends):
    """Works on one processor only, which others use as well."""

    def spend(self, path: str) -> None:
        if holds(path):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            use_processor(float(os.environ["FAKE_BURNS"]))


class TakesLongerAndLonger(_Spends):
    """Eats memory until it is stopped, but only behind other files."""

    def spend(self, path: str) -> None:
        if holds(path) and self.files > 1:
            raise MemoryError
