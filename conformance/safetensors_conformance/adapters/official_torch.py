"""Adapter of ``safetensors.torch.load_file`` on the CPU."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import safetensors
import torch_rows
from safetensors.torch import load_file


class TorchFile:
    """``safetensors.torch.load_file``."""

    name = "safetensors"
    version = version("safetensors")
    language = "Rust"
    rejects = (safetensors.SafetensorError,)
    lacks = torch_rows.LACKS

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Load every tensor."""
        return [torch_rows.row(name, tensor) for name, tensor in load_file(path).items()]
