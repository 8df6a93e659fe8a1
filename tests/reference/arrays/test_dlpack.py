"""One buffer handed from library to library by ``__dlpack__`` outlives the reader and the file."""

from __future__ import annotations

import gc
import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import safetensors
import torch
from safetensors.numpy import save_file

from safetensors_reference import safe_open
from safetensors_reference.arrays.buffers import Mode

VALUES = np.arange(4096, dtype=np.float32)
# The official library's tensors are here for comparison: what holds for ours shall hold for them.
READERS = [*[(safe_open, mode) for mode in get_args(Mode)], (safetensors.safe_open, None)]
IDS = [f"reference-{mode}" if mode else "official" for _, mode in READERS]


def importers() -> list[Any]:
    """``from_dlpack`` of every library that is installed."""
    jax = [importlib.import_module("jax.dlpack")] if find_spec("jax") else []
    return [library.from_dlpack for library in (np, torch, *jax)]


@pytest.mark.parametrize(("reader", "mode"), READERS, ids=IDS)
def test_a_tensor_handed_on_holds_its_bytes_when_all_else_is_gone(
    reader: Any, mode: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    handed: list[Any] = []
    for framework in ("np", "pt"):
        for take in importers():
            save_file({"before": np.zeros(3, np.float32), "w": VALUES}, path)
            with reader(path, framework=framework, **({"mode": mode} if mode else {})) as file:
                tensor = file.get_tensor("w")
            path.unlink()
            handed.append(take(tensor))
            if take in (np.from_dlpack, torch.from_dlpack):
                assert np.shares_memory(np.asarray(handed[-1]), np.asarray(tensor)), "one buffer"
    del tensor, file
    gc.collect()
    rest = [np.full(4096, 7, np.float32) for _ in range(64)]  # takes the memory, were it free
    assert all(np.array_equal(np.asarray(tensor), VALUES) for tensor in handed)
    assert len(rest) == 64
