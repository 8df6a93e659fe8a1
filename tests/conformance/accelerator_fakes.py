"""Loaders with faults that only an accelerator shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import device_fakes  # type: ignore[import-not-found]
import torch
from device_fakes import Right


class Chosen(device_fakes.Chosen):  # type: ignore[misc]
    """The fake of this module whose name is in the file that a variable names."""

    fakes = globals()


class LateCopies(Right):  # type: ignore[misc]
    """Copies on a stream of its own, and the caller's stream does not wait for it."""

    def device(self, path: str, device: str) -> Any:
        stream = torch.Stream(device=device)
        out = []
        for name, code, shape, tensor in super().device(path, "cpu"):
            staged = tensor.pin_memory()
            target = torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
            with stream:
                target.copy_(staged, non_blocking=True)
            out.append((name, code, shape, target))
        return out


class ReusedBuffer(Right):  # type: ignore[misc]
    """Loads every tensor into the same device memory, while earlier tensors are still views of it."""

    def device(self, path: str, device: str) -> Iterator[tuple[Any, ...]]:
        buffer = torch.empty(1 << 16, dtype=torch.uint8, device=device)
        for name, code, shape, tensor in super().device(path, "cpu"):
            flat = tensor.reshape(-1).view(torch.uint8)
            part = buffer[: len(flat)]
            part.copy_(flat)
            yield name, code, shape, part.view(tensor.dtype).reshape(tensor.shape)


class KeepsMemory(Right):  # type: ignore[misc]
    """Keeps device memory of every load."""

    kept: ClassVar[list[Any]] = []

    def device(self, path: str, device: str) -> Any:
        self.kept.append(torch.empty(4096, dtype=torch.uint8, device=device))
        return super().device(path, device)


class ThreeCopies(Right):  # type: ignore[misc]
    """Needs several times the memory of the tensors while it loads."""

    def device(self, path: str, device: str) -> Any:
        rows = super().device(path, device)
        torch.empty(16 << 20, dtype=torch.uint8, device=device)
        return rows


class Interrupted(Right):  # type: ignore[misc]
    """Frees its staging buffer only after the last tensor."""

    staging: ClassVar[list[Any]] = []

    def device(self, path: str, device: str) -> Iterator[tuple[Any, ...]]:
        self.staging.append(torch.empty(4096, dtype=torch.uint8, device=device))
        yield from super().device(path, device)
        self.staging.clear()
