"""Reads from disk directly into device memory, using GPUDirect Storage through KvikIO."""

from __future__ import annotations

import importlib
import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from ..rules.errors import AccessError, SafetensorsError, reason
from ..source import PathSource, shorter
from .engine import PAGE, DeviceError
from .plan import Segment, cut_on_grid
from .transfer import run_threads

MAX_READ = 64 << 20
MAX_QUEUED = 4


def import_kvikio() -> Any:
    try:
        return importlib.import_module("kvikio")
    except Exception as err:  # missing libraries raise various errors
        text = "gds=True needs the package kvikio-cu12 or kvikio-cu13, depending on your CUDA version"
        raise AccessError(f"{text} ({reason(err)}); load without gds=True") from err


def fill(kvikio: Any, source: PathSource, segments: Sequence[Segment], memory: torch.Tensor) -> None:
    """Fill ``memory`` with the segments of an open file. Raises UnreadableError or DeviceError."""
    if segments:
        reading = _KvikioRead(kvikio, source, segments, memory)
        run_threads([reading.run], reading.stop.set, reading.errors)


class _KvikioRead:
    def __init__(
        self, kvikio: Any, source: PathSource, segments: Sequence[Segment], memory: torch.Tensor
    ) -> None:
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self._kvikio = kvikio
        self._source = source
        self._segments = segments
        # KvikIO accepts host memory through the buffer protocol.
        self._memory = memory.numpy() if memory.device.type == "cpu" else memory
        self._queue: deque[tuple[Any, int, int]] = deque()

    def run(self) -> None:
        try:
            # Open the file through its descriptor, because the path may now refer to another file.
            with self._kvikio.CuFile(f"/proc/self/fd/{self._source.fd}", "r") as file:
                try:
                    self._read(file)
                finally:
                    while self._queue:
                        with suppress(Exception):
                            self._queue.popleft()[0].get()
        except SafetensorsError as err:
            self.errors.append(err)
        except BaseException as err:
            failed = DeviceError(f"{self._source.name}: KvikIO failed ({reason(err)}); load without gds=True")
            failed.__cause__ = err
            self.errors.append(failed)

    def _read(self, file: Any) -> None:
        for chunk in cut_on_grid(self._segments, MAX_READ, PAGE):
            if self.stop.is_set():
                return
            if len(self._queue) >= MAX_QUEUED:
                self._wait()
            at = chunk.reads[0].file_at
            into = self._memory[chunk.at : chunk.at + chunk.size]
            self._queue.append((file.pread(into, chunk.size, at), at, chunk.size))
        while self._queue:
            self._wait()

    def _wait(self) -> None:
        future, at, count = self._queue.popleft()
        try:
            got = future.get()
        except Exception as err:
            size = os.fstat(self._source.fd).st_size
            if size < at + count:  # KvikIO raises an error at the end of a file
                raise shorter(self._source.name, max(at, size)) from err
            where = f"{self._source.name}: file bytes from {at:,} onwards"
            raise DeviceError(f"{where} could not be read by KvikIO ({reason(err)})") from err
        if got != count:
            raise shorter(self._source.name, at + got)
