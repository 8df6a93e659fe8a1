"""Real processes of a gloo group. Run as a program, this module imports torch once and forks ranks on demand.

A request is a line of JSON: what to run (a function of ``scenes``), how many ranks, a folder, the
store, and arguments. Every rank leaves its answer, or the text of its error, in the folder; the reply is how
the processes ended.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist

PROGRAM = ["-m", "tests.reference.device.ranks.launcher"]
LIMIT = 45
"""Seconds after which a rank is ended by an alarm."""


class Launcher:
    """The program that forks ranks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # From Python 3.12 on a fork of a process with threads of a library is warned of.
            [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", *PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[4],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

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
        request = {"scene": scene, "world": world, "folder": str(folder), "args": args}
        request |= {"store": store, "dead": list(dead), "hurry": hurry}
        pipes: Any = self._process
        print(json.dumps(request), file=pipes.stdin, flush=True)
        if not select.select([pipes.stdout], [], [], 60)[0]:
            pytest.fail("the ranks do not come to an end")
        answers = []
        for rank, status in enumerate(json.loads(pipes.stdout.readline())):
            answers.append(None if rank in dead else pickle.loads((folder / f"out{rank}").read_bytes()))
            assert status == (-signal.SIGKILL if rank in dead else 0), answers[rank]
        return answers

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Serve requests until stdin ends."""
    scenes = importlib.import_module(".scenes", __package__)  # which imports the product
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_serve(request, scenes)), flush=True)


def _serve(request: dict[str, Any], scenes: ModuleType) -> list[int]:
    folder = Path(request["folder"])
    method = f"file://{folder / 'store'}"
    if request["store"] == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as probe:
            method = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    children: list[int] = []
    for rank in range(request["world"]):
        child = os.fork()
        if not child:
            _child(request, scenes, rank, method, folder)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _child(request: dict[str, Any], scenes: ModuleType, rank: int, method: str, folder: Path) -> None:
    signal.alarm(LIMIT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    torch.set_num_threads(1)
    status = 0
    try:
        world = request["world"]
        dist.init_process_group(
            "gloo", init_method=method, rank=rank, world_size=world, timeout=timedelta(seconds=30)
        )
        answer = getattr(scenes, request["scene"])(folder, *request["args"])
    except BaseException:
        answer = traceback.format_exc()
        status = 1
    (folder / f"new{rank}").write_bytes(pickle.dumps(answer))
    (folder / f"new{rank}").rename(folder / f"out{rank}")
    # The store must not go while others need it.
    limit = time.monotonic() + (0 if request["hurry"] else 15)
    awaited = [folder / f"out{r}" for r in range(request["world"]) if r not in request["dead"]]
    while time.monotonic() < limit and not all(path.exists() for path in awaited):
        time.sleep(0.01)
    os._exit(status)


if __name__ == "__main__":
    main()
