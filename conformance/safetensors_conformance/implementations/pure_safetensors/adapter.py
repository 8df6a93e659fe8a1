"""Adapter of ``pure_safetensors.SafeTensors``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import given
from pure_safetensors import SafeTensors
from pure_safetensors.safetensors import dtypes
from stc_host.library import attribute, call, each, item, marked, opened

LACKS = tuple("dtype-" + code.lower().replace("_", "-") for code in given.BITS if code not in dtypes)


@marked
class File:
    """A file opened for reading, and its tensors as buffers."""

    name = "pure-safetensors"
    version = version("pure-safetensors")
    language = "Python"
    lacks = LACKS

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with opened(SafeTensors, path, "r") as file:
            rows = [(name, info.dtype.name, info.shape) for name, info in file.tensors.items()]
            return {"tensors": rows, "metadata": attribute(file, "metadata")}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with opened(SafeTensors, path, "r") as file:
            buffers = call(file.as_buffer).items()  # mapped one after the other
            rows = [(name, *part(found)) for name, found in each(buffers)]
            return {"tensors": rows, "metadata": attribute(file, "metadata")}

    def hold(self, path: str) -> Held:
        """Open the file and keep it open."""
        return Held(path)


@marked
class Held:
    """A file held open."""

    def __init__(self, path: str) -> None:
        self._file = call(SafeTensors, path, "r")

    def tensor(self, name: str) -> tuple[Any, ...]:
        """Look at one tensor."""
        buffer, dtype, shape = item(call(self._file.as_buffer), name)
        return dtype.name, shape, buffer

    def close(self) -> None:
        """Close the file."""
        call(self._file.close)


def part(found: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes."""
    buffer, dtype, shape = found
    return dtype.name, shape, bytes(buffer)
