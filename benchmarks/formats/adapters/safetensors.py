"""The safetensors format, through the official library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors.numpy
import safetensors.torch
from safetensors import safe_open

from ..way import CLAIMED, Arrays, Shapes, Tensors, Way
from .torch_arrays import TorchWay, tensor


class Torch(TorchWay):
    """Torch tensors that share memory with the mapped file."""

    name = "torch"
    call = "safetensors.torch.load_file(path)"
    file = "model.safetensors"
    framework = "pt"

    def save(self, path: Path, arrays: Arrays) -> None:
        safetensors.torch.save_file({name: tensor(array) for name, array in arrays.items()}, path)

    def load(self, path: Path) -> Tensors:
        return safetensors.torch.load_file(path)

    def one(self, path: Path, name: str) -> Any:
        self.kept.append(file := safe_open(path, self.framework))
        return file.get_tensor(name)

    def shapes(self, path: Path) -> Shapes:
        self.kept.append(file := safe_open(path, self.framework))
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118

    def claim(self, path: Path) -> None:
        entry = {"dtype": "U8", "shape": [CLAIMED], "data_offsets": [0, CLAIMED]}
        header = json.dumps({"claimed": entry}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header)

    def stored(self, path: Path, value: Any) -> Any:
        safetensors.torch.save_file({}, path, metadata={"value": value})
        with safe_open(path, "pt") as file:
            return file.metadata()["value"]


class Copies(Torch):
    """NumPy arrays that are copies."""

    name = "numpy"
    call = "safetensors.numpy.load_file(path)"
    framework = "np"
    array = Way.array
    dtype = Way.dtype

    def save(self, path: Path, arrays: Arrays) -> None:
        safetensors.numpy.save_file(dict(arrays), path)

    def load(self, path: Path) -> Tensors:
        return safetensors.numpy.load_file(path)


WAYS = (Torch(), Copies())
