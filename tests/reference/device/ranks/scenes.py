"""What ranks do, each function in all processes of a group at once."""

from __future__ import annotations

import errno
import gc
import os
import random
import shutil
import signal
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import torch
import torch.distributed as dist

from safetensors_reference.device.engine import AcceleratorEngine, CpuEngine
from safetensors_reference.device.ranks import model as distributed
from safetensors_reference.device.ranks import plan as distributed_plan
from safetensors_reference.device.ranks import rounds as distributed_rounds
from safetensors_reference.device.ranks.model import ShardedModel
from safetensors_reference.rules.errors import AccessError, SafetensorsError

from ..support import at_turn, said, tracked

Answer = dict[str, Any]


def caught(do: Callable[[], Any]) -> Answer:
    """Call ``do`` and describe the error it raises, and how long that took."""
    start = time.monotonic()
    try:
        do()
    except BaseException as err:
        ranks = getattr(err, "ranks", None)
        seen = {"type": type(err).__name__, "text": str(err), "code": getattr(err, "code", None)}
        return {**seen, "ranks": ranks, "seconds": time.monotonic() - start}
    return {"type": None, "text": "", "seconds": time.monotonic() - start}


def usable() -> bool:
    """Whether a collective of the whole group works."""
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total)
    world = dist.get_world_size()
    return bool(total.item() == world * (world + 1) // 2)


def fail(err: BaseException) -> Callable[[], Any]:
    return Mock(side_effect=err)


def broken(where: Any, name: str, turn: int, act: Callable[[], Any]) -> Any:
    """Have a function do something first, at its ``turn``-th call."""
    return patch.object(where, name, at_turn(getattr(where, name), turn, act))


def limits(most: int, shortest: int) -> None:
    """Make rounds and runs small."""
    smaller = partial(distributed_plan.make_load_plan, limit=most)
    setattr(distributed, "make_load_plan", smaller)  # noqa: B010
    distributed_plan.MIN_RUN = shortest


def opened(paths: Any, timeout: float = 20, **options: Any) -> ShardedModel:
    return ShardedModel(paths, device="cpu", timeout=timeout, **options)


def everything(_folder: Path, paths: Any, uneven: str, most: int, shortest: int) -> Answer:
    """Every tensor whole and along every dimension: one by one, from either end, and in large loads."""
    limits(most, shortest)
    out: Answer = {}
    with opened(paths, uneven=uneven) as model:
        for name in model:
            rank = len(model.info(name).shape)
            out[f"{name}|None"] = model.get_tensor(name)
            for axis in range(rank):
                try:
                    out[f"{name}|{axis}"] = model.get_sharded(name, axis)
                except AccessError as err:
                    out[f"{name}|{axis}"] = str(err)
                else:
                    assert said(out[f"{name}|{axis}"]) == said(model.get_sharded(name, axis - rank))
        for turn in range(4):
            wanted: dict[str, int | None] = {}
            for number, name in enumerate(model):
                choices = [None, *range(len(model.info(name).shape))]
                dim = choices[(number + turn) % len(choices)]
                if not isinstance(out[f"{name}|{dim}"], str):
                    wanted[name] = dim
            if dist.get_rank() % 2:
                wanted = dict(reversed(wanted.items()))
            loaded = model.load(wanted)
            assert list(loaded) == list(wanted)
            for name, dim in wanted.items():
                assert said(loaded[name]) == said(out[f"{name}|{dim}"]), (name, dim)
    del model
    gc.collect()
    return {key: value if isinstance(value, str) else said(value) for key, value in out.items()}


def part_of_the_ranks(_folder: Path, path: str) -> Answer:
    """Ranks 1 and 3 load; 0 and 2 do not."""
    group = dist.new_group([1, 3])
    rank = dist.get_rank()
    if rank in (1, 3):
        with opened(path, group=group) as model:
            return {"rank": model.rank, "got": {n: said(t) for n, t in model.load({"a": 1, "b": 0}).items()}}
    return caught(lambda: opened(path, group=group))


def kept_errors(_folder: Path, path: str) -> Answer:
    """Errors are kept; the memory of the loads that raised them is not. Tensors keep theirs."""
    limits(200, 1 << 20)
    me = dist.get_rank() == 1
    memories: list[weakref.ref[Any]] = []
    CpuEngine.allocate = lambda self, size: tracked(size, memories)  # type: ignore[method-assign]
    kept: list[BaseException] = []
    made: list[int] = []

    def held() -> int:
        gc.collect()
        return sum(memory() is not None for memory in memories)

    with opened(path) as model:
        wanted = {name: len(model.info(name).shape) - 1 for name in model}
        for turn in (1, 3, 5):
            with broken(os, "preadv", turn if me else -1, fail(OSError(errno.EIO, "Input/output error"))):
                try:
                    model.load(wanted)
                except SafetensorsError as err:
                    kept.append(err)
            made.append(len(memories))
        counts = [held()]
        tensors = model.load(wanted)
    counts.append(held())
    last: Any = tensors.popitem()[1]
    tensors.clear()
    counts.append(held())
    raw = said(last)
    del last
    return {"errors": len(kept), "made": made, "held": [*counts, held()], "raw": raw}


def scattering(_folder: Path, path: str, most: int) -> Answer:
    """Scatter every tensor in rounds of ``most`` bytes, and measure the memory beside the result."""
    limits(most, 1 << 20)
    memories: list[weakref.ref[Any]] = []
    peaks = [0]

    def allocate(self: CpuEngine, size: int) -> torch.Tensor:
        memory = tracked(size, memories)
        peaks.append(sum(array.nbytes - 256 for made in memories if (array := made()) is not None))
        return memory

    CpuEngine.allocate = allocate  # type: ignore[method-assign]
    with opened(path) as model:
        result = model.load(dict.fromkeys(model, 1))
    size = sum(tensor.nbytes for tensor in result.values() if isinstance(tensor, torch.Tensor))
    return {"beside": max(peaks) - size}


def other_group(_folder: Path, path: str, backend: str, on_accelerators: bool) -> Answer:
    group = dist.new_group([0, 1], backend=backend)
    if on_accelerators:
        engine = AcceleratorEngine(torch.device("cuda", dist.get_rank()))
        setattr(distributed, "open_engine", lambda _device: engine)  # noqa: B010
    return caught(lambda: opened(path, group=group))


def errors(folder: Path, path: str, other: str, second: str) -> Answer:
    """One error after another on rank 1; after each the group works and so does the next load."""
    limits(200, 1 << 20)
    me = dist.get_rank() == 1
    out: Answer = {}

    def note(name: str, do: Callable[[], Any]) -> None:
        out[name] = caught(do)
        assert usable(), name

    note("other header", lambda: opened(other if me else path))
    note("no file", lambda: opened(str(folder / "none") if me else path))
    note("fewer files", lambda: opened([path] if me else [path, second]))
    note("argument", lambda: opened(path, threads=0 if me else 1))
    with opened(path) as model:
        wanted = dict.fromkeys(model)
        whole = {n: said(t) for n, t in model.load(wanted).items()}

        def works() -> None:
            assert {n: said(t) for n, t in model.load(wanted).items()} == whole

        note("other call", lambda: model.get_tensor("a" if me else "b"))
        note("no tensor", lambda: model.load({"none" if me else "a": None}))
        works()
        disk = fail(OSError(errno.EIO, "Input/output error"))
        for turn in (1, 3, 5):
            with broken(os, "preadv", turn if me else -1, disk):
                note(f"read {turn}", lambda: model.load(wanted))
            works()
        with broken(CpuEngine, "allocate", 1 if me else -1, fail(torch.OutOfMemoryError("no memory left"))):
            note("memory", lambda: model.load(wanted))
        works()
        with broken(distributed_rounds, "check_unchanged", 2 if me else -1, fail(KeyboardInterrupt())):
            note("interrupt", lambda: model.load(wanted))
        works()
        # A real Ctrl-C on rank 1 while it waits for the others.
        with broken(os, "preadv", -1 if me else 1, partial(time.sleep, 1)):
            if me:
                threading.Timer(0.4, partial(os.kill, os.getpid(), signal.SIGINT)).start()
            note("ctrl-c", lambda: model.load(wanted))
        works()
    copy = folder / f"copy{dist.get_rank()}.safetensors"
    shutil.copy(path, copy)
    with opened(copy) as model:
        if me:
            os.truncate(copy, copy.stat().st_size - 1)
        note("cut", lambda: model.load(wanted))

    def left() -> None:
        with opened(path) as model:
            if me:
                model.get_sharded("d", 0)
            model.get_tensor("a")

    note("left", left)
    note("left and gone on", lambda: opened(path).close())
    model.close()
    note("closed", lambda: model.get_tensor("a"))
    return out


# ---- when one of them is interrupted, hangs or ends ----


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
        whole = {n: said(t) for n, t in model.load(wanted).items()}
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
            assert {n: said(t) for n, t in model.load(wanted).items()} == whole
    return {"kinds": kinds}


def insisting(_folder: Path, path: str) -> Answer:
    """Rank 1 is interrupted twice while it waits for rank 0, which reads."""
    me = dist.get_rank() == 1
    with opened(path) as model, broken(os, "preadv", -1 if me else 1, partial(time.sleep, 3)):
        if me:
            interrupt(0.4)
            interrupt(0.8)
        return caught(lambda: model.load(dict.fromkeys(model)))


def failing(_folder: Path, path: str, victim: int, where: str, hangs: bool) -> Answer:
    """A rank is killed or hangs longer than the others wait, as it reads or in the middle of collectives."""
    limits(200, 1 << 20)
    act = partial(time.sleep, 3.5) if hangs else partial(os.kill, os.getpid(), signal.SIGKILL)
    with opened(path, 1.5) as model:
        wanted = dict.fromkeys(model)
        place, name = (os, "preadv") if where == "reading" else (dist, "broadcast")
        with broken(place, name, 2 + (not hangs) if dist.get_rank() == victim else -1, act):
            first = caught(lambda: model.load(wanted))
            return {"first": first, "again": caught(lambda: model.load(wanted))}


def first_to_go(folder: Path, path: str) -> Answer:
    """Rank 0, which hosts the store, fails and ends at once; the others come a little later."""
    if dist.get_rank():
        time.sleep(0.5)
    return caught(lambda: opened(path if dist.get_rank() else str(folder / "none")))
