"""Adapter of ``pure_safetensors.SafeTensors``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import given
from pure_safetensors import SafeTensors
from pure_safetensors.exc import SafeTensorError
from pure_safetensors.safetensors import dtypes

LACKS = tuple("dtype-" + code.lower().replace("_", "-") for code in given.BITS if code not in dtypes)


class File:
    """A file opened for reading, and its tensors as buffers."""

    name = "pure-safetensors"
    version = version("pure-safetensors")
    language = "Python"
    rejects = (SafeTensorError,)
    lacks = LACKS

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with SafeTensors(path, "r") as file:
            rows = [(name, info.dtype.name, info.shape) for name, info in file.tensors.items()]
            return {"tensors": rows, "metadata": file.metadata}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with SafeTensors(path, "r") as file:
            rows = [(name, *part(found)) for name, found in file.as_buffer().items()]
            return {"tensors": rows, "metadata": file.metadata}

    def hold(self, path: str) -> Held:
        """Open the file and keep it open."""
        return Held(path)


class Held:
    """A file held open."""

    def __init__(self, path: str) -> None:
        self._file = SafeTensors(path, "r")

    def tensor(self, name: str) -> tuple[Any, ...]:
        """Look at one tensor."""
        buffer, dtype, shape = self._file.as_buffer()[name]
        return dtype.name, shape, buffer

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def part(found: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes."""
    buffer, dtype, shape = found
    return dtype.name, shape, bytes(buffer)
