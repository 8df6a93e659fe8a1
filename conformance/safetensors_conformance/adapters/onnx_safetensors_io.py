"""Adapter of onnx-safetensors: the reader behind its ``load_file`` functions, and ``save_file``."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import given
import onnx_ir as ir
import onnx_safetensors
from onnx_safetensors import _safetensors_io as io

CODES = {dtype: code for code, dtype in io._SAFETENSORS_DTYPE_TO_IR_DTYPE.items()}  # noqa: SLF001


class Io:
    """Tensors as external data of an ONNX model."""

    name = "onnx-safetensors"
    version = version("onnx-safetensors")
    language = "Python"
    lacks = tuple(
        "dtype-" + code.lower().replace("_", "-") for code in given.BITS if code not in CODES.values()
    )

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        """Parse the header."""
        return [(name, CODES.get(t.dtype), list(t.shape)) for name, t in self._read(path).items()]

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Read every tensor."""
        return [(name, *part(t)) for name, t in self._read(path).items()]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        """Save the initializers of a model; the function takes no metadata."""
        if metadata is not None:
            raise NotImplementedError("save_file takes no metadata")
        values = [ir.Value(name=name, const_value=t) for name, t in given.named(tensors, _tensor).items()]
        graph = ir.Graph([], [], nodes=[], initializers=values, name="g")
        where = Path(path)
        onnx_safetensors.save_file(
            ir.Model(graph, ir_version=10), where.name, where.parent, replace_data=False
        )

    @staticmethod
    def _read(path: str) -> Any:
        where = Path(path)
        return io._read_safetensors(where.name, where.parent)  # noqa: SLF001 - what load_file calls


def part(tensor: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes of a tensor."""
    return CODES.get(tensor.dtype), list(tensor.shape), tensor.tobytes()


def _tensor(tensor: Any) -> Any:
    if tensor.dtype not in given.NUMPY:
        raise NotImplementedError("no such tensor")
    return ir.Tensor(given.array(tensor), name=tensor.name)
