"""Protobuf as in ONNX: a model with its initializers in the message or in a separate data file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.reference
from onnx import external_data_helper, helper, numpy_helper

from ..way import CLAIMED, Arrays, Shapes, Tensors, Way


class Message(Way):
    """The whole model in one message."""

    name = "one message"
    call = "onnx.load(path), onnx.numpy_helper.to_array(initializer)"
    file = "model.onnx"
    inside = ""

    def _save(self, path: Path, initializers: list[Any], nodes: tuple[Any, ...] = ()) -> None:
        a, b = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, []) for name in "ab")
        graph = helper.make_graph(nodes, "model", [a], [b], initializers)
        (path / self.inside).parent.mkdir(exist_ok=True)
        onnx.save(helper.make_model(graph), path / self.inside)

    def save(self, path: Path, arrays: Arrays) -> None:
        self._save(path, [numpy_helper.from_array(array, name) for name, array in arrays.items()])

    def load(self, path: Path) -> Tensors:
        return {p.name: numpy_helper.to_array(p) for p in onnx.load(path / self.inside).graph.initializer}

    def shapes(self, path: Path) -> Shapes:
        parts = onnx.load(path / self.inside, load_external_data=False).graph.initializer
        return {part.name: tuple(part.dims) for part in parts}

    def claim(self, path: Path) -> None:
        self._save(path, [onnx.TensorProto(name="t", dims=[CLAIMED], data_type=2, raw_data=b"")])

    def stored(self, path: Path, value: Any) -> Any:
        kind, inputs, more = ("Mul", "aa", {}) if callable(value) else ("Identity", "a", {"value": value})
        self._save(path, [], (helper.make_node(kind, list(inputs), ["b"], **more),))
        model = onnx.load(path / self.inside)
        if callable(value):
            return lambda n: onnx.reference.ReferenceEvaluator(model).run(None, {"a": np.float32(n)})[0]
        back = model.graph.node[0].attribute[0].s
        return back.decode() if isinstance(value, str) else back


class External(Message):
    """A message with names and shapes. All data is in one separate file."""

    name = "external data"
    call = "the same, or external_data_helper.load_external_data_for_tensor(initializer, folder)"
    inside = "model.onnx"

    def aligned(self, path: Path, arrays: Arrays, alignment: int = 1) -> None:
        path.mkdir(exist_ok=True)
        (data := path / "data").write_bytes(b"")
        parts = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
        for part in parts:
            start = -(-data.stat().st_size // alignment) * alignment
            external_data_helper.set_external_data(part, "data", offset=start)
            external_data_helper.save_external_data(part, str(path))
            part.ClearField("raw_data")
        self._save(path, parts)

    save = aligned

    def one(self, path: Path, name: str) -> Any:
        parts = onnx.load(path / self.inside, load_external_data=False).graph.initializer
        part = next(part for part in parts if part.name == name)
        external_data_helper.load_external_data_for_tensor(part, str(path))
        return numpy_helper.to_array(part)


WAYS = (Message(), External())
