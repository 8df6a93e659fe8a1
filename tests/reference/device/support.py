"""Engines that count, fail or put off, and what a loaded tensor holds."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from safetensors_reference.arrays.numpy import PackedTensor
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
    return int((tensor.raw if isinstance(tensor, PackedTensor) else tensor).data_ptr())


def storage(tensor: Any) -> int:
    """Address of the storage, the same for all views of one."""
    whole = tensor.raw if isinstance(tensor, PackedTensor) else tensor
    return int(whole.untyped_storage().data_ptr())


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


class StagedLane(CpuLane):
    """Has bytes staged and copied, as for a device."""

    def host_view(self, target: torch.Tensor) -> None:
        return None


class CountingEngine(CpuEngine):
    """Notes the size of everything that is allocated, and stages as for a device if ``staged``."""

    def __init__(self, staged: bool = True) -> None:
        super().__init__()
        self._lane = StagedLane if staged else CpuLane
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


class LateMark:
    def __init__(self, lane: LateLane, number: int) -> None:
        self._lane = lane
        self._number = number

    def query(self) -> bool:
        return self._lane.done >= self._number

    def synchronize(self) -> None:
        self._lane.catch_up(self._number)


class LateLane:
    """Copies as late as it may: when a mark is waited for, and at the end."""

    def __init__(self) -> None:
        self.done = 0
        self._lock = threading.Lock()
        self._queue: list[tuple[torch.Tensor, torch.Tensor]] = []

    def host_view(self, target: torch.Tensor) -> None:
        return None

    def copy(self, target: torch.Tensor, staged: torch.Tensor) -> LateMark:
        self._queue.append((target, staged))
        return LateMark(self, len(self._queue))

    def catch_up(self, number: int) -> None:
        with self._lock:
            while self.done < number:
                target, staged = self._queue[self.done]
                target.copy_(staged)
                self.done += 1

    def drain(self) -> None:
        self.catch_up(len(self._queue))

    def close(self) -> None:
        self.drain()


class LateEngine(CountingEngine):
    """A device whose copies are put off, as those of a busy GPU are."""

    def lane(self) -> Any:
        return LateLane()


Install = Callable[..., Ring]


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
