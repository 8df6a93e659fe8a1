"""Adapter for ``Weights`` from Text Generation Inference, in ``utils/weights.py`` of its server.

It reads one file in one process on the CPU, and returns every tensor as stored.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cut_out
import torch
import torch_rows
from stc_host.library import call, marked

PACKAGE = "text_generation_server"
WEIGHTS = cut_out.module(
    None, f"{PACKAGE}/utils/weights.py", (PACKAGE,), {f"{PACKAGE}.utils.import_utils": {"SYSTEM": "cpu"}}
)


@marked
class Weights:
    lacks = torch_rows.LACKS

    def read(self, path: str) -> Iterator[tuple[Any, ...]]:
        weights = call(WEIGHTS.Weights, [Path(path)], torch.device("cpu"), torch.float32, None, None)
        for name in weights.routing:
            yield torch_rows.row(name, call(weights.get_tensor, name, to_dtype=False, to_device=False))
