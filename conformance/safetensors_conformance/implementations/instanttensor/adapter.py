"""Adapter for InstantTensor's ``safe_open``, which needs a GPU. Tensors are copies, so they stay valid."""

from collections.abc import Iterator
from typing import Any

import instanttensor
import torch_rows
from stc_host.library import call, each, marked, opened


@marked
class Load:
    lacks = torch_rows.LACKS

    def device_ready(self, device: str) -> None:
        if not device.startswith("cuda"):
            raise RuntimeError("InstantTensor loads only onto CUDA devices")

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        with opened(instanttensor.safe_open, path, framework="pt", device=device) as file:
            for name, tensor in each(call(file.tensors)):
                yield torch_rows.device_row(name, tensor)
