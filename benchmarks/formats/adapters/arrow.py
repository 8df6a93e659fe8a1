"""Arrow: a record batch with one column for each tensor, or one message for each tensor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..way import CLAIMED, Array, Arrays, Folder, Shapes, Tensors, Way


class Columns(Way):
    """An IPC file with a record batch of one row, memory-mapped."""

    name = "IPC file"
    call = "pyarrow.ipc.open_file(pyarrow.memory_map(path))"
    file = "model.arrow"

    def save(self, path: Path, arrays: Arrays) -> None:
        _write(path, {name: _column(array) for name, array in arrays.items()})

    def _open(self, path: Path) -> Any:
        return pa.ipc.open_file(pa.memory_map(str(path)))

    def load(self, path: Path) -> Tensors:
        batch = self._open(path).get_batch(0)
        return {name: batch.column(name).to_numpy_ndarray()[0] for name in batch.schema.names}

    def one(self, path: Path, name: str) -> Any:
        return self._open(path).get_batch(0).column(name).to_numpy_ndarray()[0]

    def shapes(self, path: Path) -> Shapes:
        return {field.name: tuple(field.type.shape) for field in self._open(path).schema}

    def claim(self, path: Path) -> None:
        _write(path, {"claimed": _column(np.zeros(CLAIMED // 8))}, compression="zstd")

    def stored(self, path: Path, value: Any) -> Any:
        _write(path, {"value": pa.array([value])})
        return self._open(path).get_batch(0).column("value")[0].as_py()


class Messages(Folder):
    """One message of the format's own type Tensor for each tensor, memory-mapped."""

    name = "Tensor messages"
    call = "pyarrow.ipc.read_tensor(pyarrow.memory_map(path))"

    def write(self, path: Path, array: Array) -> None:
        with pa.OSFile(str(path), "wb") as file:
            pa.ipc.write_tensor(pa.Tensor.from_numpy(array), file)

    def read(self, path: Path) -> Any:
        return pa.ipc.read_tensor(pa.memory_map(str(path))).to_numpy()


def _write(path: Path, columns: Mapping[str, Any], compression: Any = None) -> None:
    schema = pa.schema([(name, column.type) for name, column in columns.items()])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))


def _column(array: Any) -> Any:
    return pa.FixedShapeTensorArray.from_numpy_ndarray(array.reshape(1, *array.shape))


WAYS = (Columns(), Messages())
