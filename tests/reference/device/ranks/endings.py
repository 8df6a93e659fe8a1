"""What ranks do when one of them is interrupted, hangs or ends, each function in all processes at once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from functools import partial
from pathlib import Path

import torch.distributed as dist

from .scenes import Answer, broken, caught, limits, opened, plain, usable


def interrupt(delay: float) -> threading.Timer:
    """Send this process a SIGINT after a while."""
    timer = threading.Timer(delay, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    return timer


def at_random_moments(_folder: Path, path: str, turns: int) -> Answer:
    """One rank after the other is interrupted somewhere in a load; both get through the next one."""
    limits(1 << 20, 1 << 20)
    rng = random.Random(3)
    kinds: list[str | None] = []
    with opened(path) as model:
        wanted = dict.fromkeys(model, 1)
        start = time.monotonic()
        whole = {n: plain(t) for n, t in model.load(wanted).items()}
        usual = time.monotonic() - start
        for turn in range(turns):
            delay = 0.01 + rng.random() * usual
            timer = interrupt(delay) if turn % 2 == dist.get_rank() else None

            def load(timer: threading.Timer | None = timer) -> None:
                model.load(wanted)
                if timer is not None:
                    timer.join()
                    time.sleep(0.1)

            kinds.append(caught(load)["type"])
            assert usable()
            assert {n: plain(t) for n, t in model.load(wanted).items()} == whole
    return {"kinds": kinds}


def insisting(_folder: Path, path: str) -> Answer:
    """Rank 1 is interrupted twice while it waits for rank 0, which reads."""
    me = dist.get_rank() == 1
    with opened(path) as model, broken(os, "preadv", -1 if me else 1, partial(time.sleep, 3)):
        if me:
            interrupt(0.4)
            interrupt(0.8)
        return caught(lambda: model.load(dict.fromkeys(model)))


def dying(_folder: Path, path: str, victim: int, where: str, timeout: float) -> Answer:
    """A rank is killed while it reads, or in the middle of collectives."""
    limits(200, 1 << 20)
    me = dist.get_rank() == victim
    with opened(path, timeout) as model:
        wanted = dict.fromkeys(model)
        place, name = (os, "preadv") if where == "reading" else (dist, "broadcast")
        with broken(place, name, 3 if me else -1, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            first = caught(lambda: model.load(wanted))
            return {"first": first, "again": caught(lambda: model.load(wanted))}


def hanging(_folder: Path, path: str, where: str) -> Answer:
    """Rank 1 hangs for a while, longer than the others wait."""
    limits(200, 1 << 20)
    me = dist.get_rank() == 1
    with opened(path, 1.5) as model:
        place, name = (os, "preadv") if where == "reading" else (dist, "broadcast")
        with broken(place, name, 2 if me else -1, partial(time.sleep, 3.5)):
            return caught(lambda: model.load(dict.fromkeys(model)))


def first_to_go(folder: Path, path: str) -> Answer:
    """Rank 0, which hosts the store, fails and ends at once; the others come a little later."""
    if dist.get_rank():
        time.sleep(0.5)
    return caught(lambda: opened(path if dist.get_rank() else str(folder / "none")))
