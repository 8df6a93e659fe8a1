"""Adapters of the official library: bytes in memory, NumPy from a file, and safe_open with NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import safetensors

# NumPy has no types for these; the library then raises one of several exception types (DTY-07).
NOT_IN_NUMPY = (
    "dtype-bf16",
    "dtype-f4",
    "dtype-f6-e2m3",
    "dtype-f6-e3m2",
    "dtype-f8-e4m3",
    "dtype-f8-e4m3fnuz",
    "dtype-f8-e5m2",
    "dtype-f8-e5m2fnuz",
    "dtype-f8-e8m0",
)

NUMPY_CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
    "complex64": "C64",
}


class Official:
    """What all entry points of the official library share."""

    name = "safetensors"
    version = version("safetensors")
    language = "Rust"
    rejects = (safetensors.SafetensorError,)


class InMemory(Official):
    """``safetensors.deserialize(bytes)``: the whole core, independent of any array library."""

    def read(self, path: str) -> Iterator[tuple[str, str, list[int], bytes]]:
        """Parse the bytes of the file and hand out every tensor; metadata is not reported by this call."""
        tensors: Any = safetensors.deserialize(Path(path).read_bytes())  # type: ignore[no-untyped-call]
        for name, info in tensors:
            yield name, info["dtype"], info["shape"], info["data"]


class NumpyFile(Official):
    """``safetensors.numpy.load_file``."""

    lacks = NOT_IN_NUMPY

    def __init__(self) -> None:
        from safetensors.numpy import load_file

        self._load = load_file

    def read(self, path: str) -> list[tuple[str, Any, Any, Any]]:
        """Load every tensor as an array."""
        return [array_row(name, array) for name, array in self._load(path).items()]


class SafeOpen(Official):
    """``safe_open(path, framework="np")``: header first, then each tensor."""

    lacks = NOT_IN_NUMPY

    def __init__(self) -> None:
        importlib.import_module("numpy")  # fails at start, not in the first case

    def open(self, path: str) -> dict[str, Any]:
        """List tensors and metadata without reading data."""
        with safetensors.safe_open(path, framework="np") as file:
            rows = []
            for name in file.keys():  # noqa: SIM118 - the handle is not iterable
                view = file.get_slice(name)
                rows.append((name, view.get_dtype(), view.get_shape()))
            return {"tensors": rows, "metadata": file.metadata()}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with safetensors.safe_open(path, framework="np") as file:
            rows = [array_row(name, file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118
            return {"tensors": rows, "metadata": file.metadata()}


def array_row(name: str, array: Any) -> tuple[str, Any, Any, Any]:
    """Return a tensor row for a NumPy array."""
    return name, NUMPY_CODES.get(array.dtype.name), array.shape, array.tobytes()
