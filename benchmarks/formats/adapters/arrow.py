"""Arrow: a column of fixed-shape tensors for each, with one row; and single tensors in a message of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..way import CLAIMED, Arrays, Code, Way


class Columns(Way):
    """An IPC file with a record batch of one row, mapped."""

    call = "pyarrow.ipc.open_file(pyarrow.memory_map(path))"
    file = "model.arrow"

    def save(self, path: Path, arrays: Arrays) -> None:
        make = pa.FixedShapeTensorArray.from_numpy_ndarray
        _write(path, {name: make(array[None]) for name, array in arrays.items()})

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
        kind["ARROW:extension:metadata"] = code.pickled  # type: ignore[assignment]
        column = pa.array([b"code"])
        schema = pa.schema([pa.field("code", column.type, metadata=kind)])
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            writer.write(pa.record_batch([column], schema=schema))

    def claim(self, path: Path) -> None:
        _write(path, {"claimed": pa.array(np.zeros(CLAIMED, np.uint8))}, compression="zstd")

    def extra(self, path: Path, value: Any) -> Any:
        _write(path, {"value": pa.array([value])})
        return self._open(path).get_batch(0).column("value")[0].as_py()


class Tensor(Columns):
    """One tensor in a file, without a name, mapped."""

    call = "pyarrow.ipc.read_tensor(pyarrow.memory_map(path))"
    single = True

    def save(self, path: Path, arrays: Arrays) -> None:
        (array,) = arrays.values()
        with pa.OSFile(str(path), "wb") as file:
            pa.ipc.write_tensor(pa.Tensor.from_numpy(array), file)

    def load(self, path: Path) -> Mapping[str, Any]:
        return {"tensor": pa.ipc.read_tensor(pa.memory_map(str(path))).to_numpy()}


def _write(path: Path, columns: Mapping[str, Any], **options: Any) -> None:
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    options["options"] = pa.ipc.IpcWriteOptions(compression=options.pop("compression", None))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema, **options) as writer:
        writer.write_batch(batch)


def _array(column: Any) -> np.ndarray[Any, Any]:
    fixed = isinstance(column, pa.FixedShapeTensorArray)
    found: np.ndarray[Any, Any] = column.to_numpy_ndarray()[0] if fixed else column.to_numpy()
    return found


WAYS = (Columns(), Tensor())
