"""Adapter of the reader that MindSpore has of its own for transforming shards."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import given
from mindspore.parallel import transform_safetensors
from stc_host.library import attribute, call, marked, opened

_open = transform_safetensors._fast_safe_open  # noqa: SLF001 - the reader has no public name


@marked
class Fast:
    """Header first, then each tensor as an array."""

    name = "mindspore"
    version = version("mindspore")
    language = "Python"
    rejects = (ValueError,)  # what its function read_metadata documents
    lacks = tuple(
        "dtype-" + code.lower().replace("_", "-")
        for code in given.BITS
        if code not in transform_safetensors.numpy_dtype
    )

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with opened(_open, path, framework="np") as file:
            views = file.tensors.items()
            rows = [(name, view.info["dtype"], attribute(view, "shape")) for name, view in views]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        """Load every tensor."""
        with opened(_open, path, framework="np") as file:
            rows = [(name, *part(call(file.get_tensor, name))) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def hold(self, path: str) -> Held:
        """Open the file and keep it open."""
        return Held(path)


@marked
class Held:
    """A file held open."""

    def __init__(self, path: str) -> None:
        self._file = call(_open, path, framework="np")

    def tensor(self, name: str) -> tuple[Any, ...]:
        """Look at one tensor."""
        array = call(self._file.get_tensor, name)
        return given.code(array.dtype), array.shape, given.elements(array)

    def close(self) -> None:
        """Close the file."""
        call(self._file.__exit__)


def part(array: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes of an array."""
    return given.code(array.dtype), array.shape, array.tobytes()
