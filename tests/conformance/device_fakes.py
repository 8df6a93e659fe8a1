"""Loaders onto a device: one correct, the others with one fault each.

They run in the real worker, most of them on the CPU. What they do shows on every file that is accepted, so
that each can be held against any case. Torch takes seconds to import, so only those that need it do that;
``Chosen`` is all of these in one process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from known_files import holds

from safetensors_conformance.implementations.reference.adapter import Reference
from safetensors_reference.numpy import load_file as load_arrays


class Right(Reference):
    name = "fake"
    version = "1.0"

    def device_ready(self, _device: str) -> None:
        pass

    def device(self, path: str, device: str) -> Any:
        from safetensors_conformance.implementations.support import torch_rows
        from safetensors_reference.torch import load_file

        rows: list[Any] = [torch_rows.device_row(name, t) for name, t in load_file(path).items()]
        return [(name, code, shape, t.to(device)) for name, code, shape, t in rows]


class Chosen(Right):
    """The fake of this module whose name is in the file that a variable names."""

    fakes = globals()
    _name = ""
    _fake: Any = None

    def _choose(self) -> Any:
        name = Path(os.environ["STC_CHOSEN"]).read_text(encoding="utf-8")
        if name != self._name:
            self._name, self._fake = name, self.fakes[name]()
        return self._fake

    def device(self, path: str, device: str) -> Any:
        return self._choose().device(path, device)

    def device_bytes(self) -> int:
        return int(self._choose().device_bytes())


class Arrays(Reference):
    name = "fake"
    version = "1.0"
    device_memory = "buffers"
    lacks = ("dtype-bf16",)

    def device_ready(self, _device: str) -> None:
        pass

    def device(self, path: str, device: str) -> Any:
        codes = {np.dtype("<f4"): "F32", np.dtype("<i2"): "I16"}
        return [(n, codes.get(a.dtype), a.shape, a) for n, a in load_arrays(path).items()]


DeviceOnly = type("DeviceOnly", (), {"device_memory": "buffers", "device": Arrays.device})
OddMemory = type("OddMemory", (Arrays,), {"device_memory": "jax"})


def cleared(kind: type) -> type:
    """Make a loader that gives memory back when it is done, while tensors are still views of it."""

    def device(self: Any, path: str, device: str) -> Any:
        rows = kind.device(self, path, device)  # type: ignore[attr-defined]
        try:
            yield from rows
        finally:
            for *_, tensor in rows:
                tensor[...] = 0

    return type("Cleared", (kind,), {"device": device})


ClearedAtTheEnd = cleared(Right)
ClearedArrays = cleared(Arrays)


def each(change: Callable[[Any, str], Any]) -> type[Right]:
    """Make a loader that changes every tensor; the change gets the tensor and the device."""

    class Changes(Right):
        def device(self, path: str, device: str) -> Any:
            rows = super().device(path, device)
            return [(name, code, shape, change(tensor, device)) for name, code, shape, tensor in rows]

    return Changes


def moved(tensor: Any, _: str) -> Any:
    """Return a copy that begins one byte after a multiple of 64."""
    import torch

    flat = tensor.reshape(-1).view(torch.uint8)
    room = torch.empty(len(flat) + 128, dtype=torch.uint8)
    begin = -room.data_ptr() % 64 + 1
    room[begin : begin + len(flat)] = flat
    # torch itself refuses a view at such an address, so NumPy makes it
    array = room.numpy()[begin : begin + len(flat)]
    return torch.from_numpy(array.view(tensor.numpy().dtype).reshape(tuple(tensor.shape)))


Unaligned = each(moved)
OtherBytes = each(lambda tensor, _: tensor + 1)
NoTensor = each(lambda _tensor, _device: "tensor")


class OneBuffer(Right):
    """Mixes up two loads at once."""

    _loading = 0

    def device(self, path: str, device: str) -> Any:
        type(self)._loading += 1
        time.sleep(0.05)
        mixed = self._loading > 1
        rows = super().device(path, device)
        time.sleep(0.05)
        type(self)._loading -= 1
        return [(n, c, s, t + 1 if mixed else t) for n, c, s, t in rows]


def first(act: Callable[[Any, str, str], object]) -> type[Right]:
    """Make a loader that does something with itself, the path and the device before it loads."""

    class Acts(Right):
        def device(self, path: str, device: str) -> Any:
            act(self, path, device)
            return super().device(path, device)

    return Acts


def need_the_main_thread(*_: object) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("load from the main thread")


def refuse_a_second_load(loader: Any, path: str, _: str) -> None:
    if path in vars(loader).setdefault("seen", set()):
        raise OSError("the file is in use")
    loader.seen.add(path)


def take_memory(loader: Any, path: str, _: str) -> None:
    loader._device_bytes += os.path.getsize(path)


OneThread = first(need_the_main_thread)
OnceOnly = first(refuse_a_second_load)
TakesFirst = first(take_memory)


AcceptsAll = type("AcceptsAll", (Right,), {"device": lambda *_: []})


def instead(act: Callable[[], Any]) -> type[Arrays]:
    """Make a loader that acts in place of loading the file of one case."""

    class Acts(Arrays):
        def device(self, path: str, device: str) -> Any:
            return act() if holds(path) else super().device(path, device)

    return Acts


class OutOfMemoryError(RuntimeError):
    """As torch calls it."""


def lose_device() -> None:
    raise RuntimeError("CUDA error: an illegal memory access was encountered\nand a page more")


def run_out_of_memory() -> None:
    raise ValueError("cannot load") from OutOfMemoryError("tried to allocate 2 GiB")


Dies = instead(os.abort)
LosesDevice = instead(lose_device)
NoRoom = instead(run_out_of_memory)


class NeedsCuda(Arrays):
    def device_ready(self, device: str) -> None:
        if device == "cpu":
            raise RuntimeError("this loader needs CUDA")


# Faults that only an accelerator shows


class LateCopies(Right):
    """Copies on a stream of its own, and the caller's stream does not wait for it."""

    def device(self, path: str, device: str) -> Any:
        import torch

        stream = torch.Stream(device=device)
        out = []
        for name, code, shape, tensor in super().device(path, "cpu"):
            staged = tensor.pin_memory()
            target = torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
            with stream:
                target.copy_(staged, non_blocking=True)
            out.append((name, code, shape, target))
        return out


class ReusedBuffer(Right):
    """Loads every tensor into the same device memory, while earlier tensors are still views of it."""

    def device(self, path: str, device: str) -> Any:
        import torch

        buffer = torch.empty(1 << 16, dtype=torch.uint8, device=device)
        for name, code, shape, tensor in super().device(path, "cpu"):
            flat = tensor.reshape(-1).view(torch.uint8)
            part = buffer[: len(flat)]
            part.copy_(flat)
            yield name, code, shape, part.view(tensor.dtype).reshape(tensor.shape)


def take(size: int, device: str) -> Any:
    import torch

    return torch.empty(size, dtype=torch.uint8, device=device)


KEPT: list[Any] = []
KeepsMemory = first(lambda _loader, _path, device: KEPT.append(take(4096, device)))
ThreeCopies = first(lambda _loader, _path, device: take(16 << 20, device))  # memory while it loads


class Interrupted(KeepsMemory):  # type: ignore[misc,valid-type]
    """Frees its staging buffer only after the last tensor."""

    def device(self, path: str, device: str) -> Any:
        yield from super().device(path, device)
        KEPT.clear()
