"""Adapters of CryptoTensors, a fork of the official library, with plain files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cryptotensors
import given
from stc_host.library import call, item, marked, opened

NOT_IN_NUMPY = tuple(
    "dtype-" + code.lower().replace("_", "-") for code in given.BITS if code not in given.NUMPY
)


class Crypto:
    """Base of all entry points."""

    name = "cryptotensors"
    version = version("cryptotensors")
    language = "Rust"
    rejects = (cryptotensors.SafetensorError,)  # the one type that its documentation has
    lacks: tuple[str, ...] = ("dtype-f8-e4m3fnuz", "dtype-f8-e5m2fnuz")


@marked
class InMemory(Crypto):
    """``deserialize`` and ``serialize_file``."""

    def read(self, path: str) -> Iterator[tuple[str, Any, Any, bytes]]:
        """Parse the bytes of the file."""
        for name, info in call(cryptotensors.deserialize, Path(path).read_bytes()):
            yield name, info["dtype"], info["shape"], info["data"]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save buffers."""
        call(cryptotensors.serialize_file, given.named(tensors, _spec), path, metadata)


@marked
class SafeOpen(Crypto):
    """``safe_open`` with NumPy, ``cryptotensors.numpy.save_file``."""

    lacks = NOT_IN_NUMPY

    def open(self, path: str) -> dict[str, Any]:
        """List tensors and metadata."""
        with opened(cryptotensors.safe_open, path, framework="np") as file:
            rows = []
            for name in call(file.keys):
                view = call(file.get_slice, name)
                rows.append((name, call(view.get_dtype), call(view.get_shape)))
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with opened(cryptotensors.safe_open, path, framework="np") as file:
            rows = [(name, *part(call(file.get_tensor, name))) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, ...]:
        """Read a part of one tensor."""
        with opened(cryptotensors.safe_open, path, framework="np") as file:
            return part(item(call(file.get_slice, tensor), index))

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save arrays."""
        from cryptotensors.numpy import save_file

        call(save_file, given.named(tensors), path, metadata)

    def resave(self, path: str) -> None:
        """Load the file and save what it holds."""
        from cryptotensors.numpy import load_file, save_file

        call(save_file, call(load_file, path), path)


def part(array: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes of an array."""
    return given.code(array.dtype), array.shape, array.tobytes()


def _spec(tensor: Any) -> dict[str, Any]:
    if tensor.dtype not in given.NUMPY:
        raise NotImplementedError("the names of other dtypes are not documented")
    name = given.array(tensor).dtype.name
    return {"dtype": name, "shape": list(tensor.shape), "data": bytes(given.raw(tensor))}
