"""Repeat a request hundreds of times, and compare the resources that the process holds before and after.

Caches, allocators and garbage collectors keep some resources after a request, but not for every request in a
long series. A process therefore leaks only if its usage grows in proportion to the number of requests, in one
block of requests after another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

WARM = 30
"""Number of requests before the first measurement."""
SHARE = 0.25
"""Growth per request that counts, in descriptors, mappings, threads or multiples of the size of the file."""

PATIENCE = 120.0
"""Maximum number of seconds for all requests.

A program may answer every request just within its time limit.
"""


class Usage(NamedTuple):
    """Resources of a process: numbers of open descriptors, mappings and threads, and bytes of memory."""

    descriptors: int
    mappings: int
    threads: int
    memory: int


BLOCKS = Usage(descriptors=3, mappings=3, threads=1, memory=6)
"""Number of successive blocks that must grow.

A garbage collector may first run after many megabytes. No collector ends threads, and a process soon reaches
its limit on threads.
"""


def usage_of(pid: int | str = "self") -> Usage:
    """Read the usage from ``/proc``. Raises NotImplementedError if that is impossible."""
    process = Path(f"/proc/{pid}")
    try:
        lines = (line.partition(":") for line in (process / "status").read_text("utf-8").splitlines())
        status = {name: value.split() for name, _, value in lines}
        return Usage(
            len(list((process / "fd").iterdir())),
            (process / "maps").read_bytes().count(b"\n"),
            int(status["Threads"][0]),
            int(status["VmRSS"][0]) * 1024,
        )
    except (OSError, KeyError, ValueError, IndexError) as err:
        raise NotImplementedError(f"the process cannot be inspected here ({type(err).__name__})") from err


def what_stays(run: Callable[[], None], times: int, size: int, usage: Callable[[], Usage]) -> str:
    """Run a request ``times`` times, and more often while the usage grows.

    Returns a description of the leak, or an empty string.

    ``size`` is the size in bytes of the file that each request reads. Raises NotImplementedError if the
    process cannot be inspected, or if the requests take too long.
    """
    ends = time.monotonic() + PATIENCE

    def repeat(count: int) -> None:
        for _ in range(count):
            if time.monotonic() > ends:
                raise NotImplementedError(f"the requests took more than {PATIENCE:.0f} seconds")
            run()

    repeat(WARM)
    count = times - WARM
    first = last = usage()
    growing = dict(zip(Usage._fields, (1, 1, 1, size), strict=True))
    for block in range(1, max(BLOCKS) + 1):
        repeat(count)
        now = usage()
        for name, unit in list(growing.items()):
            if getattr(now, name) - getattr(last, name) < SHARE * unit * count:
                del growing[name]
            elif block == getattr(BLOCKS, name):
                share = (getattr(now, name) - getattr(first, name)) / (unit * block * count)
                # Rounded, so all runs report the same value.
                if name == "memory":
                    return f"the process keeps {share:.1f} times the size of the file for each request"
                return f"the process keeps {share:.1f} {name} for each request"
        if not growing:
            break
        last = now
    return ""
