"""H5: one contiguous dataset for each tensor, through h5py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py

from ..way import CLAIMED, Arrays, Way


class Datasets(Way):
    """Datasets in the root group, in the order in which they were written."""

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

    def load(self, path: Path) -> Mapping[str, Any]:
        with h5py.File(path, "r") as file:
            return {name: dataset[...] for name, dataset in file.items()}

    def one(self, path: Path, name: str) -> Any:
        with h5py.File(path, "r") as file:
            return file[name][...]

    def shapes(self, path: Path) -> Mapping[str, tuple[int, ...]]:
        with h5py.File(path, "r") as file:
            return {name: dataset.shape for name, dataset in file.items()}

    def claim(self, path: Path) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("claimed", (CLAIMED,), "u1")  # never written, so it holds fill values

    def extra(self, path: Path, value: Any) -> Any:
        with h5py.File(path, "w") as file:
            file.attrs["value"] = value
        with h5py.File(path, "r") as file:
            return file.attrs["value"]


WAYS = (Datasets(),)
