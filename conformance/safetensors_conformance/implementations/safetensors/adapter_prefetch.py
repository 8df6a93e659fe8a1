"""Adapter of ``safe_open.prefetch`` of the official library, which loads onto CUDA devices only."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import safetensors
import torch_rows
from stc_host.library import each, marked, opened


@marked
class Prefetch:
    """``safe_open(path, framework="pt").prefetch(device=...)``, tensors as they come."""

    name = "safetensors"
    version = version("safetensors")
    language = "Rust"
    rejects = (safetensors.SafetensorError,)
    lacks = torch_rows.LACKS

    def device_ready(self, device: str) -> None:
        """Raise RuntimeError where there is nothing to load onto, or no prefetch."""
        if not hasattr(safetensors.safe_open, "prefetch"):
            raise RuntimeError(f"safetensors {self.version} has no safe_open.prefetch")
        if not device.startswith("cuda"):
            raise RuntimeError("safe_open.prefetch loads onto CUDA devices only")

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        """Load every tensor. They stay valid when the loader is closed, as its documentation says."""
        with (
            opened(safetensors.safe_open, path, framework="pt") as file,
            opened(file.prefetch, device=device) as loader,
        ):
            for name, tensor in each(loader):
                yield torch_rows.device_row(name, tensor)
