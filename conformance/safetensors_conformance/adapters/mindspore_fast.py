"""Adapter of the reader that MindSpore has of its own for transforming shards."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import given
import numpy as np
from mindspore.parallel import transform_safetensors

_open = transform_safetensors._fast_safe_open  # noqa: SLF001 - the reader has no public name
CODES = {np.dtype(dtype).name: code for code, dtype in transform_safetensors.numpy_dtype.items()}


class Fast:
    """Header first, then each tensor as an array."""

    name = "mindspore"
    version = version("mindspore")
    language = "Python"
    rejects = (ValueError,)
    lacks = tuple(
        "dtype-" + code.lower().replace("_", "-")
        for code in given.BITS
        if code not in transform_safetensors.numpy_dtype
    )

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with _open(path, framework="np") as file:
            rows = [(name, view.info["dtype"], view.shape) for name, view in file.tensors.items()]
            return {"tensors": rows, "metadata": file.metadata()}

    def read(self, path: str) -> dict[str, Any]:
        """Load every tensor."""
        with _open(path, framework="np") as file:
            rows = [(name, *part(file.get_tensor(name))) for name in file.keys()]  # noqa: SIM118
            return {"tensors": rows, "metadata": file.metadata()}

    def hold(self, path: str) -> Held:
        """Open the file and keep it open."""
        return Held(path)


class Held:
    """A file held open."""

    def __init__(self, path: str) -> None:
        self._file = _open(path, framework="np")

    def tensor(self, name: str) -> tuple[Any, ...]:
        """Look at one tensor."""
        array = self._file.get_tensor(name)
        return CODES.get(array.dtype.name), array.shape, given.elements(array)

    def close(self) -> None:
        """Close the file."""
        self._file.__exit__()


def part(array: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes of an array."""
    return CODES.get(array.dtype.name), array.shape, array.tobytes()
