"""Adapters for the official library with torch: files, bytes, slices, saving, and ``prefetch`` for a GPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors
import torch_given
import torch_rows
from safetensors.torch import load, load_file, save_file
from stc_host.library import Held, call, each, item, marked, opened


class Torch:
    rejects = (safetensors.SafetensorError,)
    lacks: tuple[str, ...] = torch_rows.LACKS


@marked
class TorchFile(Torch):
    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        return [torch_rows.row(name, tensor) for name, tensor in call(load_file, path).items()]

    def share(self, path: str) -> Held:
        opener = call(safetensors.safe_open, path, framework="pt")
        file = call(opener.__enter__)
        return Held(
            lambda name: torch_rows.part(call(file.get_tensor, name)),
            lambda: call(opener.__exit__, None, None, None),
        )

    def device(self, path: str, device: str) -> list[tuple[str, Any, Any, Any]]:
        tensors = call(load_file, path, device=device)
        return [torch_rows.device_row(name, tensor) for name, tensor in tensors.items()]


@marked
class TorchBytes(Torch):
    """``safetensors.torch.load``, which reads bytes in memory. Its dtype table does not contain F4."""

    lacks = ("dtype-f4", *torch_rows.LACKS)

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        tensors = call(load, Path(path).read_bytes())
        return [torch_rows.row(name, tensor) for name, tensor in tensors.items()]


@marked
class TorchSave(Torch):
    """``safetensors.torch.save_file``. Resaving loads the file with ``load_file``."""

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        call(save_file, torch_given.named(tensors), path, metadata)

    def resave(self, path: str) -> None:
        call(save_file, call(load_file, path), path)


@marked
class TorchSlices(Torch):
    """``safe_open(path, framework="pt")``: tensors one by one, and slices."""

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        with opened(safetensors.safe_open, path, framework="pt") as file:
            return [torch_rows.row(name, call(file.get_tensor, name)) for name in call(file.keys)]

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, Any, bytes]:
        with opened(safetensors.safe_open, path, framework="pt") as file:
            return torch_rows.part(item(call(file.get_slice, tensor), index))


@marked
class Prefetch(Torch):
    """``safe_open(path, framework="pt").prefetch(device=...)``, with tensors in order of arrival."""

    def device_ready(self, device: str) -> None:
        """Raise RuntimeError if there is no CUDA device or no ``prefetch``."""
        if not hasattr(safetensors.safe_open, "prefetch"):
            raise RuntimeError(f"safetensors {safetensors.__version__} has no safe_open.prefetch")
        if not device.startswith("cuda"):
            raise RuntimeError("safe_open.prefetch loads only onto CUDA devices")

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        """Load every tensor. As documented, the tensors stay valid after the loader is closed."""
        with (
            opened(safetensors.safe_open, path, framework="pt") as file,
            opened(file.prefetch, device=device) as loader,
        ):
            for name, tensor in each(loader):
                yield torch_rows.device_row(name, tensor)
