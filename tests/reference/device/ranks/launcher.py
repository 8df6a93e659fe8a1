"""Real processes of a gloo group, forked on demand by a process that imports torch once.

Every rank leaves its answer, or the text of its error, in the folder of its request.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import time
import traceback
import warnings
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from . import scenes

LIMIT = 45
"""Seconds after which a rank is ended by an alarm."""


class Launcher:
    """The process that forks ranks."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENBLAS_NUM_THREADS", "1")
            patch.setenv("OMP_NUM_THREADS", "1")
            self._process.start()
        theirs.close()

    def run(
        self,
        scene: str,
        world: int,
        folder: Path,
        *args: object,
        store: str = "file",
        dead: Sequence[int] = (),
        hurry: bool = False,
    ) -> list[Any]:
        """Return every rank's answer, None for those that are to be dead."""
        awaited = [] if hurry else [folder / f"out{rank}" for rank in range(world) if rank not in dead]
        self._pipe.send((scene, world, folder, args, store, awaited))
        if not self._pipe.poll(60):
            pytest.fail("the ranks do not come to an end")
        answers = []
        for rank, status in enumerate(self._pipe.recv()):
            answers.append(None if rank in dead else pickle.loads((folder / f"out{rank}").read_bytes()))
            assert status == (-signal.SIGKILL if rank in dead else 0), answers[rank]
        return answers

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection) -> None:
    """Answer each request with the exit codes of its ranks."""
    warnings.simplefilter("error")
    # From Python 3.12 on a fork of a process with threads of a library is warned of.
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)
    while True:
        scene, world, folder, args, store, awaited = pipe.recv()
        method = f"file://{folder / 'store'}"
        if store == "tcp":
            with socket.create_server(("127.0.0.1", 0)) as probe:
                method = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        children: list[int] = []
        for rank in range(world):
            children.append(os.fork())
            if not children[-1]:
                group = {"init_method": method, "rank": rank, "world_size": world}
                _child(scene, folder, args, group, awaited)
        pipe.send([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


def _child(scene: str, folder: Path, args: Any, group: dict[str, Any], awaited: list[Path]) -> None:
    signal.alarm(LIMIT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    status = 0
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=30), **group)
        answer = getattr(scenes, scene)(folder, *args)
    except BaseException:
        answer = traceback.format_exc()
        status = 1
    out = folder / f"out{group['rank']}"
    out.with_suffix(".new").write_bytes(pickle.dumps(answer))
    out.with_suffix(".new").rename(out)
    # The store must not go while others need it.
    limit = time.monotonic() + 15
    while time.monotonic() < limit and not all(path.exists() for path in awaited):
        time.sleep(0.01)
    os._exit(status)
