"""Adapters that read unencrypted files with CryptoTensors, a fork of the official library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cryptotensors
import given
import lacking
from stc_host.library import call, item, marked, opened


class Crypto:
    rejects = (cryptotensors.SafetensorError,)  # the only exception type that it documents
    lacks = lacking.dtypes("F8_E4M3FNUZ", "F8_E5M2FNUZ")


@marked
class InMemory(Crypto):
    def read(self, path: str) -> Iterator[tuple[str, Any, Any, bytes]]:
        for name, info in call(cryptotensors.deserialize, Path(path).read_bytes()):
            yield name, info["dtype"], info["shape"], info["data"]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        call(cryptotensors.serialize_file, given.named(tensors, _spec), path, metadata)


@marked
class SafeOpen(Crypto):
    lacks = lacking.all_but(given.NUMPY)

    def open(self, path: str) -> dict[str, Any]:
        with opened(cryptotensors.safe_open, path, framework="np") as file:
            rows = []
            for name in call(file.keys):
                view = call(file.get_slice, name)
                rows.append((name, call(view.get_dtype), call(view.get_shape)))
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        with opened(cryptotensors.safe_open, path, framework="np") as file:
            rows = [(name, *given.part(call(file.get_tensor, name))) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> tuple[Any, ...]:
        with opened(cryptotensors.safe_open, path, framework="np") as file:
            return given.part(item(call(file.get_slice, tensor), index))

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        from cryptotensors.numpy import save_file

        call(save_file, given.named(tensors), path, metadata)

    def resave(self, path: str) -> None:
        from cryptotensors.numpy import load_file, save_file

        call(save_file, call(load_file, path), path)


def _spec(tensor: Any) -> dict[str, Any]:
    if tensor.dtype not in given.NUMPY:
        raise NotImplementedError("the names of other dtypes are not documented")
    name = given.array(tensor).dtype.name
    return {"dtype": name, "shape": list(tensor.shape), "data": bytes(given.raw(tensor))}
