"""Cap'n Proto with our own schema, ``model.capnp``, because the format has no schema for tensors."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import capnp
import ml_dtypes  # noqa: F401 - gives NumPy the names of its types
import numpy as np

from ..way import CLAIMED, Array, Arrays, Shapes, Tensors, Way

_SCHEMA = capnp.load(str(Path(__file__).with_name("model.capnp")))
_PART = (1 << 29) - 8
_LIMIT = 1 << 60
"""Maximum number of words that may be traversed. The library's default, 64 MiB, is smaller than a tensor."""


class Mapped(Way):
    """A message with many segments, memory-mapped."""

    name = "message"
    call = "Model.from_bytes(mmap.mmap(…), traversal_limit_in_words=…)"
    file = "model.bin"

    def save(self, path: Path, arrays: Arrays) -> None:
        words = sum(array.nbytes for array in arrays.values()) // 8 + 64 * len(arrays)
        message = _SCHEMA.Model.new_message(min(words, _PART // 8))  # a single segment preserves the order
        tensors = message.init("tensors", len(arrays))
        for tensor, (name, array) in zip(tensors, arrays.items(), strict=True):
            tensor.name, tensor.dtype, tensor.shape = name, array.dtype.name, list(array.shape)
        for tensor, array in zip(tensors, arrays.values(), strict=True):
            raw = array.reshape(-1).view(np.uint8)
            starts = range(0, len(raw), _PART)
            parts = tensor.init("parts", len(starts))
            for index, start in enumerate(starts):
                parts[index].data = raw[start : start + _PART].tobytes()
        with path.open("wb") as file:
            message.write(file)

    def _open(self, path: Path) -> Any:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.kept.append(opened := _SCHEMA.Model.from_bytes(mapped, traversal_limit_in_words=_LIMIT))
        return opened.__enter__()

    def load(self, path: Path) -> Tensors:
        return {tensor.name: _array(tensor) for tensor in self._open(path).tensors}

    def one(self, path: Path, name: str) -> Any:
        return next(_array(tensor) for tensor in self._open(path).tensors if tensor.name == name)

    def shapes(self, path: Path) -> Shapes:
        return {tensor.name: tuple(tensor.shape) for tensor in self._open(path).tensors}

    def dtype(self, tensor: Any) -> str:  # noqa: ARG002 - dtypes are texts of the schema, which is the user's
        return "Data"

    def claim(self, path: Path) -> None:
        # The segment table declares this many words, but the file contains only one.
        path.write_bytes(struct.pack("<IIQ", 0, CLAIMED // 8, 0))

    def stored(self, path: Path, value: Any) -> Any:
        kind = {"str": "text", "bytes": "bytes"}[type(value).__name__]
        message = _SCHEMA.Model.new_message(**{kind: value})
        path.write_bytes(message.to_bytes())
        return getattr(self._open(path), kind)


def _array(tensor: Any) -> Array:
    parts = [np.frombuffer(part.get_data_as_view("data"), np.uint8) for part in tensor.parts]
    raw = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, np.uint8)])
    return raw.view(tensor.dtype).reshape(tuple(tensor.shape))


WAYS = (Mapped(),)
