"""Readers that write endlessly. Usage: ``python -IS FILE cmd|exit WHAT``, or a class here as an adapter.

Standard library only, so that they start at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable


def lines() -> None:
    """Write faster than anybody can take lines apart."""
    while True:
        os.write(1, b"\n" * (1 << 16))


def slow_lines() -> None:
    while True:
        os.write(1, b"\n")
        time.sleep(0.001)


def hungry_lines() -> None:
    hoard = []
    while True:
        os.write(1, b"\n")
        hoard.append(b"\x01" * (1 << 20))
        time.sleep(0.01)


def endless_bytes() -> None:
    while True:
        os.write(1, b"x" * 4096)
        time.sleep(0.001)


def stderr() -> None:
    while True:
        os.write(2, b"a line\n" * 1000)


ACTS: dict[str, Callable[[], None]] = {
    "lines": lines,
    "slow-lines": slow_lines,
    "hungry-lines": hungry_lines,
    "bytes": endless_bytes,
    "stderr": stderr,
}


class _Reader:
    """An adapter that writes without end."""

    act = "lines"

    def read(self, path: str) -> None:
        ACTS[self.act]()


class Lines(_Reader):
    pass


class SlowLines(_Reader):
    act = "slow-lines"


class Bytes(_Reader):
    act = "bytes"


class Stderr(_Reader):
    act = "stderr"


def main(how: str, what: str) -> None:
    if how == "exit":
        ACTS[what]()
    for line in sys.stdin:
        if json.loads(line)["cmd"] == "start":
            say = {"protocol": 1, "implementation": {"name": "endless"}, "steps": ["read"]}
            os.write(1, json.dumps(say).encode() + b"\n")
        else:
            ACTS[what]()


if __name__ == "__main__":
    main(*sys.argv[1:3])
