"""Adapters for onnx-safetensors: ``save_file``, ``load_file``, and the reader that ``load_file`` uses."""

from pathlib import Path
from typing import Any

import given
import lacking
import onnx_ir as ir
import onnx_safetensors
from onnx_safetensors import _safetensors_io as io
from stc_host.library import call, marked

CODES = {dtype: code for code, dtype in io._SAFETENSORS_DTYPE_TO_IR_DTYPE.items()}  # noqa: SLF001


@marked
class Io:
    lacks = lacking.all_but(CODES.values())

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        return [(name, code(t), shape(t)) for name, t in self._read(path).items()]

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        return [(name, *part(t)) for name, t in self._read(path).items()]

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        if metadata is not None:
            raise NotImplementedError("save_file does not accept metadata")
        model = _model(given.named(tensors, _tensor))
        where = Path(path)
        call(onnx_safetensors.save_file, model, where.name, where.parent, replace_data=False)

    @staticmethod
    def _read(path: str) -> Any:
        where = Path(path)
        return call(io._read_safetensors, where.name, where.parent)  # noqa: SLF001 - what load_file calls


@marked
class LoadFile:
    """The public function ``load_file``, with a model that has no tensors."""

    def open(self, path: str) -> list[tuple[str, str, list[int]]]:
        call(onnx_safetensors.load_file, _model({}), path)
        return []


def part(tensor: Any) -> tuple[Any, Any, bytes]:
    # tobytes() asserts that there are elements, so use the array for a tensor without elements.
    data = call(tensor.numpy).tobytes() if 0 in tuple(tensor.shape) else call(tensor.tobytes)
    return code(tensor), shape(tensor), data


def code(tensor: Any) -> str:
    return CODES.get(tensor.dtype, str(tensor.dtype))


def shape(tensor: Any) -> list[Any]:
    return [size if isinstance(size, int) else str(size) for size in tensor.shape]


def _model(tensors: dict[Any, Any]) -> Any:
    try:
        values = [ir.Value(name=name, const_value=tensor) for name, tensor in tensors.items()]
        graph = ir.Graph([], [], nodes=[], initializers=values, name="g")
    except (TypeError, ValueError) as err:
        raise NotImplementedError(f"an ONNX model cannot contain such tensors: {err}") from err
    return ir.Model(graph, ir_version=10)


def _tensor(tensor: Any) -> Any:
    if tensor.dtype not in given.NUMPY or tensor.byteorder != "little":
        raise NotImplementedError("ONNX cannot represent this tensor")
    return ir.Tensor(given.array(tensor), name=tensor.name)
