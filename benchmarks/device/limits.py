"""Limits of the machine, measured for both parts of every load from a file: reading and copying.

Memory is allocated before the clock starts, so only the movement of bytes is measured. Each figure comes from
several repetitions, and shares of the limit refer to the best median.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

REPEATS = 5
CHUNK = 8 << 20
SPAN = 4 << 30
"""Maximum number of bytes per repetition."""
SLOTS = 32
BLOCK = 1 << 30
PINNED = 128 << 20
THREADS = (1, 2, 4, 8, 12, 16)
STREAMS = (1, 2, 4)
READ, COPY, PAGEABLE, PIN = "page-cache-to-staging", "staging-to-device", "pageable-to-device", "pin"
Row = dict[str, Any]


def measure(path: Path, device: str) -> Iterator[Row]:
    """Yield one row for each limit as soon as it is measured.

    A row contains ``what``, ``setting``, and ``gb_per_s`` or, for pinning, ``seconds``, with one figure for
    each repetition. The staging memory is pinned for accelerators. On the CPU, NumPy copies from memory to
    memory.

    Raises OSError or RuntimeError.
    """
    import torch

    accelerator = device != "cpu"
    if accelerator:
        torch.accelerator.set_device_index(torch.device(device))
        torch.zeros(1, device=device)
        yield _pinning(torch)
    staging = torch.empty(SLOTS * CHUNK, dtype=torch.uint8, pin_memory=accelerator)
    staging.fill_(1)
    size = min(path.stat().st_size, SPAN)
    for threads in THREADS:
        yield _row(READ, _count(threads, "thread"), size, partial(_read, path, size, staging, threads))
    if accelerator:
        yield from _copies(torch, device, staging)
        return
    target = np.ones(SLOTS * CHUNK, np.uint8)
    for threads in THREADS[:3]:
        move = partial(_memcpy, target, staging.numpy(), threads)
        yield _row(COPY, _count(threads, "thread"), len(target), move)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _row(what: str, setting: str, size: int, move: Callable[[], object]) -> Row:
    move()
    speeds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        move()
        speeds.append(round(size / (time.perf_counter() - began) / 1e9, 3))
    return {"what": what, "setting": setting, "gb_per_s": speeds}


def _pinning(torch: Any) -> Row:
    """Pin new memory twice. Both blocks stay allocated, because torch would otherwise reuse the first."""
    seconds, held = [], []
    for _ in range(2):
        began = time.perf_counter()
        held.append(torch.empty(PINNED, dtype=torch.uint8, pin_memory=True))
        seconds.append(round(time.perf_counter() - began, 9))
    return {"what": PIN, "setting": f"{PINNED >> 20} MiB", "seconds": seconds}


def _read(path: Path, size: int, staging: Any, threads: int) -> None:
    view = memoryview(staging.numpy())
    chunks = iter(range(0, size, CHUNK))
    lock = threading.Lock()
    fd = os.open(path, os.O_RDONLY)

    def work(number: int) -> None:
        slots = range(number, SLOTS, threads)
        done = 0
        while True:
            with lock:
                at = next(chunks, None)
            if at is None:
                return
            slot = slots[done % 2 if len(slots) > 1 else 0] * CHUNK
            done += 1
            os.preadv(fd, [view[slot : slot + min(CHUNK, size - at)]], at)

    try:
        _in_threads(work, threads)
    finally:
        os.close(fd)


def _memcpy(target: Any, source: Any, threads: int) -> None:
    share = -(-len(target) // threads)

    def work(number: int) -> None:
        part = slice(number * share, (number + 1) * share)
        np.copyto(target[part], source[part])

    _in_threads(work, threads)


def _in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _copies(torch: Any, device: str, staging: Any) -> Iterator[Row]:
    pieces = staging.view(SLOTS, CHUNK)
    target = torch.empty(BLOCK, dtype=torch.uint8, device=device).view(-1, CHUNK)

    def pinned(streams: list[Any]) -> None:
        for number in range(len(target)):
            with streams[number % len(streams)]:
                target[number].copy_(pieces[number % SLOTS], non_blocking=True)
        torch.accelerator.synchronize()

    def pageable(source: Any) -> None:
        target.view(-1).copy_(source)
        torch.accelerator.synchronize()

    for count in STREAMS:
        streams = [torch.Stream(device=device) for _ in range(count)]
        yield _row(COPY, _count(count, "stream"), target.numel(), partial(pinned, streams))
    source = torch.ones(target.numel(), dtype=torch.uint8)
    yield _row(PAGEABLE, f"{BLOCK >> 20} MiB", target.numel(), partial(pageable, source))


def main(argv: list[str]) -> int:
    """Print the rows as JSON lines. ``argv`` contains the path of a file in the page cache and the device."""
    import json

    for row in measure(Path(argv[0]), argv[1]):
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
