"""Arrow: a column of fixed-shape tensors for each in one record batch; and single tensors as messages."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..way import CLAIMED, Arrays, Code, Way


class Columns(Way):
    """An IPC file with a record batch of one row, mapped."""

    name = "IPC file"
    call = "pyarrow.ipc.open_file(pyarrow.memory_map(path))"
    file = "model.arrow"

    def save(self, path: Path, arrays: Arrays) -> None:
        make = pa.FixedShapeTensorArray.from_numpy_ndarray
        _write(path, {name: make(array.reshape(1, *array.shape)) for name, array in arrays.items()})

    def _open(self, path: Path) -> Any:
        return pa.ipc.open_file(pa.memory_map(str(path)))

    def load(self, path: Path) -> Mapping[str, Any]:
        batch = self._open(path).get_batch(0)
        return {name: _array(batch.column(name)) for name in batch.schema.names}

    def one(self, path: Path, name: str) -> Any:
        return _array(self._open(path).get_batch(0).column(name))

    def shapes(self, path: Path) -> Mapping[str, tuple[int, ...]]:
        return {field.name: tuple(field.type.shape) for field in self._open(path).schema}

    def trap(self, path: Path, code: Code) -> None:
        kind = {"ARROW:extension:name": "arrow.py_extension_type"}  # unpickled before 14.0.1: CVE-2023-47248
        kind["ARROW:extension:metadata"] = pickle.dumps(code)  # type: ignore[assignment]
        field = pa.field("code", pa.binary(), metadata=kind)
        _write(path, {"code": pa.array([b"code"])}, pa.schema([field]))

    def claim(self, path: Path) -> None:
        _write(path, {"claimed": pa.array(np.zeros(CLAIMED // 8))}, compression="zstd")

    def extra(self, path: Path, value: Any) -> Any:
        _write(path, {"value": pa.array([value])})
        return self._open(path).get_batch(0).column("value")[0].as_py()


class Tensors(Way):
    """A folder with a message of the format's own type Tensor for each, mapped."""

    name = "Tensor messages"
    call = "pyarrow.ipc.read_tensor(pyarrow.memory_map(path))"
    file = "folder"

    def save(self, path: Path, arrays: Arrays) -> None:
        path.mkdir(exist_ok=True)
        for name, array in arrays.items():
            with pa.OSFile(str(path / name), "wb") as file:
                pa.ipc.write_tensor(pa.Tensor.from_numpy(array), file)

    def load(self, path: Path) -> Mapping[str, Any]:
        return {file.name: self.one(path, file.name) for file in path.iterdir()}

    def one(self, path: Path, name: str) -> Any:
        return pa.ipc.read_tensor(pa.memory_map(str(path / name))).to_numpy()


def _write(path: Path, columns: Mapping[str, Any], schema: Any = None, compression: Any = None) -> None:
    schema = schema or pa.schema([(name, column.type) for name, column in columns.items()])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))


def _array(column: Any) -> Any:
    fixed = isinstance(column, pa.FixedShapeTensorArray)
    return column.to_numpy_ndarray()[0] if fixed else column.to_numpy()


WAYS = (Columns(), Tensors())
