"""Engines that count, fail or put off, and what a loaded tensor holds."""

from __future__ import annotations

import itertools
import random
import threading
import weakref
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from safetensors_reference.arrays.buffers import Pages
from safetensors_reference.device import load as load_module
from safetensors_reference.device.engine import CpuEngine, CpuLane, Engine
from safetensors_reference.device.transfer import Ring

from ... import simulated_device
from ..naive import BITS
from ..support import make, raw_bytes

DEVICES = ["cpu", *simulated_device.DEVICES, *(["cuda:0"] if torch.cuda.is_available() else [])]


WORDS = [
    ("a", "F32", [300]),
    ("b", "BF16", [7, 9]),
    ("c", "I64", []),
    ("d", "F8_E4M3", [0, 4]),
    ("e", "U8", [5]),
]
"""Name, dtype and shape of the tensors of a small file."""


def said(tensor: Any) -> tuple[object, ...]:
    """Everything about a tensor but where it lies."""
    kind = tensor.dtype if isinstance(tensor, torch.Tensor) else ("packed", tensor.dtype)
    return (kind, tuple(tensor.shape), raw_bytes(tensor))


def address(tensor: Any) -> int:
    return int(getattr(tensor, "raw", tensor).data_ptr())


def storage(tensor: Any) -> int:
    """Address of the storage, the same for all views of one."""
    return int(getattr(tensor, "raw", tensor).untyped_storage().data_ptr())


def file_of(tensors: Sequence[tuple[str, str, Sequence[int]]], padding: int = 0) -> bytes:
    """A file of tensors (name, dtype, shape) in the order of their bytes; no two neighbours are alike."""
    entries, at = [], 0
    for name, code, shape in tensors:
        size = BITS[code]
        for dim in shape:
            size *= dim
        dims = ",".join(map(str, shape))
        entries.append(
            f'"{name}":{{"dtype":"{code}","shape":[{dims}],"data_offsets":[{at},{at + size // 8}]}}'
        )
        at += size // 8
    return make("{" + ",".join(entries) + "}" + " " * padding, pattern(at))


def pattern(size: int) -> bytes:
    """Random bytes 0 and 1, which are booleans too."""
    return bytes(byte & 1 for byte in random.Random(size).randbytes(size))


def data_of(file: bytes) -> bytes:
    return file[8 + int.from_bytes(file[:8], "little") :]


def tracked(size: int, memories: list[weakref.ref[Any]]) -> torch.Tensor:
    """Allocate aligned memory, and note when it is given back."""
    memory = np.empty(size + 256, np.uint8)
    memories.append(weakref.ref(memory))
    start = -memory.ctypes.data % 256
    return torch.from_numpy(memory)[start : start + size]


def slices_of(
    code: str, shape: Sequence[int], dim: int, world: int
) -> list[tuple[tuple[int, ...], list[int]]] | None:
    """Shape and bytes of the slice of each rank, by a cut of torch; None where a byte would be cut."""
    parts = list(torch.arange(prod(shape)).reshape(*shape).chunk(world, dim))
    parts += [parts[0].narrow(dim, 0, 0)] * (world - len(parts))
    slices = []
    for part in parts:
        bits = [element * BITS[code] + k for element in part.flatten().tolist() for k in range(BITS[code])]
        starts = bits[::8]
        if any(at % 8 for at in starts) or bits != [at + k for at in starts for k in range(8)]:
            return None
        slices.append((tuple(part.shape), [at // 8 for at in starts]))
    return slices


def at_turn(
    real: Callable[..., Any], turn: int, act: Callable[[], Any], late: bool = False
) -> Callable[..., Any]:
    """Return a function that does something more at its ``turn``-th call: first, or last."""
    calls = itertools.count(1)

    def call(*args: Any, **options: Any) -> Any:
        now = next(calls) == turn
        if now and not late:
            act()
        result = real(*args, **options)
        if now and late:
            act()
        return result

    return call


class StagedLane(CpuLane):
    """Has bytes staged and copied, as for a device."""

    def host_view(self, target: torch.Tensor) -> None:
        return None


class CountingEngine(CpuEngine):
    """Notes the size of everything that is allocated; by default, bytes are staged as for a device."""

    def __init__(self, lane: type[CpuLane] = StagedLane) -> None:
        super().__init__()
        self._lane = lane
        self.sizes: list[int] = []
        self.slots = 0

    def allocate(self, size: int) -> torch.Tensor:
        self.sizes.append(size)
        return super().allocate(size)

    def staging(self, size: int) -> torch.Tensor:
        self.slots += 1
        return super().staging(size)

    def lane(self) -> Any:
        return self._lane(self.pages)


class LateLane(StagedLane):
    """Copies as late as it may, as a busy GPU: when a mark (the lane) is waited for, and at the end."""

    def __init__(self, pages: Pages) -> None:
        super().__init__(pages)
        self._lock = threading.Lock()
        self._queue: list[tuple[torch.Tensor, torch.Tensor]] = []

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> Any:
        self._queue.append((target, staged))
        return self

    def query(self) -> bool:
        return not self._queue

    def drain(self) -> None:
        with self._lock:
            while self._queue:
                super().copy(*self._queue[0])
                del self._queue[0]

    synchronize = close = drain


def install(
    monkeypatch: pytest.MonkeyPatch, engine: Engine | None = None, slots: int = 3, slot_bytes: int = 16384
) -> Ring:
    """Have loads use ``engine`` and a ring of their own, which is returned."""
    engine = CountingEngine() if engine is None else engine
    ring = Ring(slots, slot_bytes, engine.staging)
    monkeypatch.setattr(load_module, "open_engine", lambda *_: engine)
    monkeypatch.setattr(load_module, "shared_ring", lambda _pinned, _make: ring)
    return ring


def write(folder: Path, data: bytes, name: str = "file.safetensors") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path
