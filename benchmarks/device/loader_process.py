"""The process of one loader, which loads files on request and answers with its measurements.

Requests and answers are JSON objects, one per line, on stdin and stdout. Anything that the loader prints goes
to stderr. The process sends the first answer without a request: ``{"ready": ...}`` or ``{"missing":
reason}``.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from pathlib import Path

# imported by name, because a loader may replace attributes of the module
from time import perf_counter, process_time
from typing import Any, TextIO

from . import check, loaders, memory


class Server:
    """A loader that is ready to be measured."""

    def __init__(self, name: str, device: str, target: str | None) -> None:
        """Import everything and start CUDA before the clock starts. Raises ImportError or NotHere."""
        import torch

        self.device = device
        self.loader = loaders.named(name, target)
        self.load = self.loader.make(device, **self.loader.settings)
        self.version = loaders.package_version(self.loader)
        self.accelerator = device != "cpu"
        if self.accelerator:
            torch.accelerator.set_device_index(torch.device(device))
            torch.zeros(1, device=device)
        self.sync()
        self.device_memory: memory.DeviceMemory | None = None

    def sync(self) -> None:
        if self.accelerator:
            import torch

            torch.accelerator.synchronize()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.accelerator and self.device_memory is None:
            self.device_memory = memory.DeviceMemory(self.device)
        measured = self.weighed(request) if request.get("weigh") else self.timed(request)
        tensors = measured.pop("tensors")
        if request.get("check"):
            sums = request.get("sums")
            measured["check"] = check.check(
                tensors, Path(request["content"]), self.device, None if sums is None else Path(sums)
            )
        del tensors
        gc.collect()
        return measured

    def timed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load the file, and measure wall and processor seconds."""
        gc.collect()
        self.sync()
        cpu, began = process_time(), perf_counter()
        tensors = self.load(request["path"])
        self.sync()
        return {
            "seconds": perf_counter() - began,
            "cpu_seconds": process_time() - cpu,
            "tensors": tensors,
        }

    def weighed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load the file without timing it, and measure the memory."""
        gc.collect()
        if self.device_memory is not None:
            self.device_memory.forget()
        fresh = memory.forget_peak()
        before = memory.host()
        with memory.Watch(self.device_memory) as watch:
            tensors = self.load(request["path"])
            self.sync()
        after = memory.host()
        out: dict[str, Any] = {"tensors": tensors}
        if fresh and "hwm" in after and "rss" in before:
            out["host_growth"] = max(0, after["hwm"] - before["rss"])
        out["host_peak"] = after.get("hwm")
        if self.device_memory is not None and watch.lowest is not None:
            out["device_torch"] = self.device_memory.torch_peak()
            out["device_driver"] = max(0, self.device_memory.free - watch.lowest)
            out["pinned_torch"] = self.device_memory.pinned()
        return out


def main(argv: list[str]) -> int:
    """Answer requests until stdin ends.

    ``argv`` contains one JSON object with name, device, target, paths and limit.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.loads(argv[0])
    sys.path[:0] = asked["paths"]
    try:
        server = Server(asked["name"], asked["device"], asked["target"])
    except loaders.NotHere as err:
        _send(answers, {"missing": str(err)})
        return 0
    except Exception as err:  # a package with missing libraries may raise any exception
        _send(answers, {"missing": _reason(err)})
        return 0
    _send(answers, {"ready": {"version": server.version}})
    for line in sys.stdin:
        # This timer ends the process even if the loader hangs in C code and the client is gone.
        signal.alarm(int(asked["limit"]) + 10)
        try:
            reply = server.answer(json.loads(line))
        except Exception as err:
            reply = {"failed": _reason(err)}
        signal.alarm(0)
        _send(answers, reply)
    return 0


def _send(answers: TextIO, reply: dict[str, Any]) -> None:
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


def _reason(err: BaseException) -> str:
    lines = str(err).strip().splitlines()
    return f"{type(err).__name__}: {lines[0][:300]}" if lines else type(err).__name__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
