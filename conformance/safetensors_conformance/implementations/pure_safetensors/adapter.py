"""Adapter for ``pure_safetensors.SafeTensors``, a file opened for reading, with buffers as tensors."""

from typing import Any

import lacking
from pure_safetensors import SafeTensors
from pure_safetensors.safetensors import dtypes
from stc_host.library import Held, attribute, call, each, item, marked, opened


@marked
class File:
    lacks = lacking.all_but(dtypes)

    def open(self, path: str) -> dict[str, Any]:
        with opened(SafeTensors, path, "r") as file:
            rows = [(name, info.dtype.name, info.shape) for name, info in file.tensors.items()]
            return {"tensors": rows, "metadata": attribute(file, "metadata")}

    def read(self, path: str) -> dict[str, Any]:
        with opened(SafeTensors, path, "r") as file:
            buffers = call(file.as_buffer).items()  # mapped into memory one after the other
            rows = [(name, *part(found)) for name, found in each(buffers)]
            return {"tensors": rows, "metadata": attribute(file, "metadata")}

    def hold(self, path: str) -> Held:
        file = call(SafeTensors, path, "r")

        def tensor(name: str) -> tuple[Any, ...]:
            buffer, dtype, shape = item(call(file.as_buffer), name)
            return dtype.name, shape, buffer

        return Held(tensor, lambda: call(file.close))

    share = hold


def part(found: Any) -> tuple[Any, Any, bytes]:
    buffer, dtype, shape = found
    return dtype.name, shape, bytes(buffer)
