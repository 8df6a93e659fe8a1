"""Readers that use time, memory or reads: right about every file, at a known cost.

``python budget_fakes.py`` speaks the protocol itself and lies about its costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .known_files import BYTES, SECONDS, holds
    from .quick_reader import Reference
else:
    from known_files import BYTES, SECONDS, holds
    from quick_reader import Reference


def burn(seconds: float = SECONDS) -> None:
    """Use the processor, however long that takes by the clock."""
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


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
        burn()
        read_zeros(1 << 20)
        bytearray(b"\x01" * BYTES)


def burn_in_a_child(_: _Spends) -> None:
    folder = os.fspath(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import budget_fakes; budget_fakes.burn()"
    subprocess.run([sys.executable, "-c", code], check=True)


Burns = spender(lambda _: burn())
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
            burn(float(os.environ["FAKE_BURNS"]))


class TakesLongerAndLonger(_Spends):
    """Eats memory until it is stopped, but only behind other files."""

    def spend(self, path: str) -> None:
        if holds(path) and self.files > 1:
            raise MemoryError


def liar() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        if request["cmd"] == "start":
            answer: dict[str, Any] = {"protocol": 1, "implementation": {"name": "liar"}, "steps": ["read"]}
        else:
            burn()
            rows = [{"name": row[0]} for row in Reference().read(request["path"])["tensors"]]
            answer = {"seq": request["seq"], "outcome": "accept", "tensors": rows}
            answer |= {"cpu_ms": 0.001, "wall_ms": 0.001}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        liar()
    elif holds(sys.argv[1]):  # as a program that says yes or no
        burn()
