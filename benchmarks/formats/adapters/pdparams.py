"""The pdparams format, which stores a Paddle state dict."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from ..way import CLAIMED, Array, Arrays, Tensors, Way


class StateDict(Way):
    """A dict of tensors."""

    name = "paddle.load"
    call = "paddle.load(path)"
    file = "model.pdparams"
    objects = True

    def save(self, path: Path, arrays: Arrays) -> None:
        paddle.save({name: _tensor(array) for name, array in arrays.items()}, str(path))

    def load(self, path: Path) -> Tensors:
        return paddle.load(str(path))

    def array(self, tensor: Any) -> Array:
        return (tensor.view("uint8") if "float8" in str(tensor.dtype) else tensor).numpy()

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype).removeprefix("paddle.")

    def claim(self, path: Path) -> None:
        path.write_bytes(b"\x80\x05\x96" + struct.pack("<Q", CLAIMED) + b".")


def _tensor(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype.isbuiltin == 1:
        return paddle.to_tensor(array)
    return paddle.to_tensor(array.view(f"i{array.itemsize}")).view(array.dtype.name)


WAYS = (StateDict(),)
