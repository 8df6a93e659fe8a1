"""Adapters of PaddleFormers' own reader, which is one file that does not need Paddle."""

from __future__ import annotations

import importlib.util
from importlib.metadata import distribution
from typing import Any

import given
from stc_host.library import call, item, marked, opened

_PACKAGE = distribution("paddleformers")


def _module() -> Any:
    where = str(_PACKAGE.locate_file("paddleformers/utils/safetensors.py"))
    spec = importlib.util.spec_from_file_location("paddleformers_safetensors", where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


READER = _module()


@marked
class Fast:
    """``fast_load_file``, ``fast_safe_open``."""

    name = "paddleformers"
    version = _PACKAGE.version
    language = "Python"
    lacks = tuple(
        "dtype-" + code.lower().replace("_", "-") for code in given.BITS if code not in READER.numpy_dtype
    )

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with opened(READER.fast_safe_open, path, framework="np") as file:
            views = [(name, call(file.get_slice, name)) for name in call(file.keys)]
            rows = [(name, view.info["dtype"], call(view.get_shape)) for name, view in views]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Load every tensor."""
        return [(name, *part(array)) for name, array in call(READER.fast_load_file, path).items()]

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, ...]:
        """Read a part of one tensor."""
        with opened(READER.fast_safe_open, path, framework="np") as file:
            return part(item(call(file.get_slice, tensor), index))

    def hold(self, path: str) -> Held:
        """Open the file and keep it open."""
        return Held(path)


@marked
class Held:
    """A file held open."""

    def __init__(self, path: str) -> None:
        self._file = call(READER.fast_safe_open, path, framework="np")

    def tensor(self, name: str) -> tuple[Any, ...]:
        """Read one tensor."""
        return part(call(self._file.get_tensor, name))

    def close(self) -> None:
        """Close the file."""
        call(self._file.__exit__)


def part(array: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes of an array."""
    return given.code(array.dtype), array.shape, array.tobytes()
