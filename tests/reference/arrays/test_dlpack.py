"""One buffer handed from library to library by ``__dlpack__`` outlives the reader and the file."""

from __future__ import annotations

import gc
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


def taken(reader: Any, mode: str | None, path: Path, framework: str) -> Any:
    """A tensor whose reader is closed and whose file is gone."""
    more = {"mode": mode} if mode else {}
    with reader(path, framework=framework, **more) as file:
        tensor = file.get_tensor("w")
    path.unlink()
    return tensor


def importer(name: str) -> Any:
    """``from_dlpack`` of a library; skips where the library is not installed."""
    module = {"np": np, "pt": torch}.get(name)
    return (module or pytest.importorskip(f"{name}.dlpack" if name == "jax" else name)).from_dlpack


@pytest.mark.parametrize("onto", ["np", "pt", "jax"])
@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize(("reader", "mode"), READERS, ids=IDS)
def test_a_tensor_handed_on_holds_its_bytes_when_all_else_is_gone(
    reader: Any, mode: str | None, framework: str, onto: str, tmp_path: Path
) -> None:
    take = importer(onto)
    path = tmp_path / "a.safetensors"
    save_file({"before": np.zeros(3, np.float32), "w": VALUES}, path)
    tensor = taken(reader, mode, path, framework)
    address = tensor.ctypes.data if framework == "np" else tensor.data_ptr()
    handed = take(tensor)
    if onto != "jax":
        assert (handed.ctypes.data if onto == "np" else handed.data_ptr()) == address, "one buffer"
    del tensor
    gc.collect()
    rest = [np.full(4096, 7, np.float32) for _ in range(64)]  # takes the memory, were it free
    assert np.array_equal(np.asarray(handed), VALUES)
    assert len(rest) == 64
