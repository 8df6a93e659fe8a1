"""Protobuf, as ONNX has it: initializers of a model in one message, or their data in a file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ..way import CLAIMED, Arrays, Way


def _model(initializers: list[Any], nodes: tuple[Any, ...] = ()) -> Any:
    a, b = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, []) for name in "ab")
    return helper.make_model(helper.make_graph(nodes, "model", [a], [b], initializers))


class Message(Way):
    """The whole model in one message."""

    name = "one message"
    call = "onnx.load(path), onnx.numpy_helper.to_array(initializer)"
    file = "model.onnx"

    def save(self, path: Path, arrays: Arrays) -> None:
        onnx.save(_model([numpy_helper.from_array(array, name) for name, array in arrays.items()]), path)

    def load(self, path: Path) -> Mapping[str, Any]:
        return {part.name: numpy_helper.to_array(part) for part in onnx.load(path).graph.initializer}

    def shapes(self, path: Path) -> Mapping[str, tuple[int, ...]]:
        parts = onnx.load(path, load_external_data=False).graph.initializer
        return {part.name: tuple(part.dims) for part in parts}

    def claim(self, path: Path) -> None:
        forged = onnx.TensorProto(name="claimed", dims=[CLAIMED], data_type=onnx.TensorProto.UINT8)
        forged.raw_data = b""
        onnx.save(_model([forged]), path)

    def extra(self, path: Path, value: Any) -> Any:
        if callable(value):  # the code of this format is a graph of operators
            onnx.save(_model([], (helper.make_node("Mul", ["a", "a"], ["b"]),)), path)
            return lambda number: ReferenceEvaluator(onnx.load(path)).run(None, {"a": np.float32(number)})[0]
        onnx.save(_model([], (helper.make_node("Identity", ["a"], ["b"], value=value),)), path)
        back = helper.get_attribute_value(onnx.load(path).graph.node[0].attribute[0])
        return back.decode() if isinstance(value, str) else back


class External(Message):
    """A message with names and shapes, and all data in one file beside it."""

    name = "external data"
    call = "the same, or external_data_helper.load_external_data_for_tensor(initializer, folder)"
    file = "folder"

    def save(self, path: Path, arrays: Arrays) -> None:
        self.aligned(path, arrays, 1)

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        path.mkdir(exist_ok=True)
        (path / "data").write_bytes(b"")
        parts = []
        for name, array in arrays.items():
            parts.append(part := numpy_helper.from_array(array, name))
            start = -(-(path / "data").stat().st_size // alignment) * alignment
            external_data_helper.set_external_data(part, "data", offset=start)
            external_data_helper.save_external_data(part, str(path))
            part.ClearField("raw_data")
        onnx.save(_model(parts), path / "model.onnx")

    def load(self, path: Path) -> Mapping[str, Any]:
        return super().load(path / "model.onnx")

    def one(self, path: Path, name: str) -> Any:
        parts = onnx.load(path / "model.onnx", load_external_data=False).graph.initializer
        (part,) = (part for part in parts if part.name == name)
        external_data_helper.load_external_data_for_tensor(part, str(path))
        return numpy_helper.to_array(part)

    def shapes(self, path: Path) -> Mapping[str, tuple[int, ...]]:
        return super().shapes(path / "model.onnx")

    def claim(self, path: Path) -> None:
        path.mkdir()
        super().claim(path / "model.onnx")

    def extra(self, path: Path, value: Any) -> Any:
        path.mkdir()
        return super().extra(path / "model.onnx", value)


WAYS = (Message(), External())
