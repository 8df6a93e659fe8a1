"""Adapters of safetensors-streaming with local paths: ``load_file`` and its own ``safe_open``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import safetensors_streaming
import torch_rows


class Streaming:
    """What both entry points share."""

    name = "safetensors-streaming"
    version = version("safetensors-streaming")
    language = "Rust"
    lacks = (
        *torch_rows.LACKS,
        "dtype-c64",
        "dtype-f4",
        "dtype-f8-e4m3",
        "dtype-f8-e4m3fnuz",
        "dtype-f8-e5m2",
        "dtype-f8-e5m2fnuz",
        "dtype-f8-e8m0",
        "dtype-u16",
        "dtype-u32",
        "dtype-u64",
    )


class File(Streaming):
    """``load_file``."""

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Load every tensor."""
        return [torch_rows.row(name, t) for name, t in safetensors_streaming.load_file(path).items()]


class SafeOpen(Streaming):
    """``safe_open``."""

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with safetensors_streaming.safe_open(path) as file:
            rows = [torch_rows.row(name, file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118
            return {"tensors": rows, "metadata": file.metadata()}
