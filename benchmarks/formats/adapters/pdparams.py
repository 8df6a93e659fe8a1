"""pdparams: a state dict of Paddle."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paddle

from ..way import CLAIMED, Array, Arrays, Code, Way


class StateDict(Way):
    """A dict of tensors."""

    name = "paddle.load"
    call = "paddle.load(path)"
    file = "model.pdparams"

    def save(self, path: Path, arrays: Arrays) -> None:
        paddle.save({name: _tensor(array) for name, array in arrays.items()}, str(path))

    def load(self, path: Path) -> Mapping[str, Any]:
        found: Mapping[str, Any] = paddle.load(str(path))
        return found

    def array(self, tensor: Any) -> Array:
        found: Array = (tensor.view("uint8") if "float8" in str(tensor.dtype) else tensor).numpy()
        return found

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype).removeprefix("paddle.")

    def trap(self, path: Path, code: Code) -> None:
        path.write_bytes(pickle.dumps({"code": code}))

    def claim(self, path: Path) -> None:
        path.write_bytes(b"\x80\x05\x96" + struct.pack("<Q", CLAIMED) + b".")

    def extra(self, path: Path, value: Any) -> Any:
        paddle.save({"value": value}, str(path))
        return self.load(path)["value"]


def _tensor(array: Array) -> Any:
    if array.dtype.isbuiltin == 1:
        return paddle.to_tensor(array)
    return paddle.to_tensor(array.view(f"i{array.itemsize}")).view(array.dtype.name)


WAYS = (StateDict(),)
