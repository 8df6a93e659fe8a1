"""H5: one contiguous dataset for each tensor, through h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..way import CLAIMED, Array, Arrays, Shapes, Tensors, Way


class Datasets(Way):
    """Datasets in the root group, in the order in which they were written."""

    name = "h5py"
    call = 'h5py.File(path, "r")[name][...]'
    file = "model.h5"

    def save(self, path: Path, arrays: Arrays) -> None:
        self._write(path, arrays)

    def _write(self, path: Path, arrays: Arrays, **options: Any) -> None:
        with h5py.File(path, "w", track_order=True, **options) as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        self._write(path, arrays, alignment_threshold=1, alignment_interval=alignment)

    def load(self, path: Path) -> Tensors:
        with h5py.File(path, "r") as file:
            return {name: dataset[...] for name, dataset in file.items()}

    def one(self, path: Path, name: str) -> Any:
        with h5py.File(path, "r") as file:
            return file[name][...]

    def shapes(self, path: Path) -> Shapes:
        with h5py.File(path, "r") as file:
            return {name: dataset.shape for name, dataset in file.items()}

    def claim(self, path: Path) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("claimed", (CLAIMED,), "u1")  # never written, so it contains fill values

    def stored(self, path: Path, value: Any) -> Any:
        with h5py.File(path, "w") as file:
            file.attrs["value"] = np.void(value) if isinstance(value, bytes) else value
        with h5py.File(path, "r") as file:
            return bytes(file.attrs["value"]) if isinstance(value, bytes) else file.attrs["value"]


class Mapped(Datasets):
    """The same file, memory-mapped. The library reports the offsets of the datasets."""

    name = "h5py, mapped"
    call = "numpy.memmap(path)[dataset.id.get_offset():…]"

    def load(self, path: Path) -> Tensors:
        whole = np.memmap(path, mode="r")
        with h5py.File(path, "r") as file:
            return {name: _part(whole, dataset) for name, dataset in file.items()}

    def one(self, path: Path, name: str) -> Any:
        with h5py.File(path, "r") as file:
            return _part(np.memmap(path, mode="r"), file[name])

    def claim(self, path: Path) -> None:
        raise NotImplementedError  # a dataset that was never written has no offset


def _part(whole: Array, dataset: Any) -> Array:
    start = dataset.id.get_offset()
    return whole[start : start + dataset.nbytes].view(dataset.dtype).reshape(dataset.shape)


WAYS = (Datasets(), Mapped())
