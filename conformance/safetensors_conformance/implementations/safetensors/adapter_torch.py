"""Adapter of ``safetensors.torch.load_file``, on the CPU and onto a device."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import safetensors
import torch_rows
from safetensors.torch import load_file
from stc_host.library import call, marked


@marked
class TorchFile:
    """``safetensors.torch.load_file``."""

    name = "safetensors"
    version = version("safetensors")
    language = "Rust"
    rejects = (safetensors.SafetensorError,)
    lacks = torch_rows.LACKS

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Load every tensor."""
        return [torch_rows.row(name, tensor) for name, tensor in call(load_file, path).items()]

    def device(self, path: str, device: str) -> list[tuple[str, Any, Any, Any]]:
        """Load every tensor onto a device."""
        tensors = call(load_file, path, device=device)
        return [torch_rows.device_row(name, tensor) for name, tensor in tensors.items()]
