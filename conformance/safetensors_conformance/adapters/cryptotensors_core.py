"""Adapters of CryptoTensors, a fork of the official library, with plain files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cryptotensors
import given

NOT_IN_NUMPY = tuple(
    "dtype-" + code.lower().replace("_", "-") for code in given.BITS if code not in given.NUMPY
)


class Crypto:
    """What all entry points share."""

    name = "cryptotensors"
    version = version("cryptotensors")
    language = "Rust"
    rejects = (cryptotensors.SafetensorError,)
    lacks: tuple[str, ...] = ("dtype-f8-e4m3fnuz", "dtype-f8-e5m2fnuz")


class InMemory(Crypto):
    """``deserialize`` and ``serialize_file``."""

    def read(self, path: str) -> Iterator[tuple[str, Any, Any, bytes]]:
        """Parse the bytes of the file."""
        for name, info in cryptotensors.deserialize(Path(path).read_bytes()):
            yield name, info["dtype"], info["shape"], info["data"]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save buffers."""
        cryptotensors.serialize_file(given.named(tensors, _spec), path, metadata)


class SafeOpen(Crypto):
    """``safe_open`` with NumPy, ``cryptotensors.numpy.save_file``."""

    lacks = NOT_IN_NUMPY

    def open(self, path: str) -> dict[str, Any]:
        """List tensors and metadata."""
        with cryptotensors.safe_open(path, framework="np") as file:
            views = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            rows = [(name, view.get_dtype(), view.get_shape()) for name, view in views.items()]
            return {"tensors": rows, "metadata": file.metadata()}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with cryptotensors.safe_open(path, framework="np") as file:
            rows = [(name, *part(file.get_tensor(name))) for name in file.keys()]  # noqa: SIM118
            return {"tensors": rows, "metadata": file.metadata()}

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, ...]:
        """Read a part of one tensor."""
        with cryptotensors.safe_open(path, framework="np") as file:
            return part(file.get_slice(tensor)[index])

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save arrays."""
        from cryptotensors.numpy import save_file

        save_file(given.named(tensors), path, metadata)

    def resave(self, path: str) -> None:
        """Load the file and save what it holds."""
        from cryptotensors.numpy import load_file, save_file

        save_file(load_file(path), path)


def part(array: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes of an array."""
    return given.CODES.get(array.dtype.name), array.shape, array.tobytes()


def _spec(tensor: Any) -> dict[str, Any]:
    if tensor.dtype not in given.NUMPY:
        raise NotImplementedError("the names of other dtypes are not documented")
    name = given.array(tensor).dtype.name
    return {"dtype": name, "shape": list(tensor.shape), "data": bytes(given.raw(tensor))}
