"""NumPy's npy and npz formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..way import CLAIMED, Array, Arrays, Code, Folder, Shapes, Tensors, Way


class Npz(Way):
    """An uncompressed zip archive of npy files."""

    name = "npz"
    call = "numpy.load(path, allow_pickle=False)"
    loose_call = "allow_pickle=True"
    file = "model.npz"

    def save(self, path: Path, arrays: Arrays, allow_pickle: bool = False) -> None:
        np.savez(path, allow_pickle=allow_pickle, **arrays)  # keeps the order of the names

    def load(self, path: Path, allow_pickle: bool = False) -> Tensors:
        with np.load(path, allow_pickle=allow_pickle) as file:
            return {name: file[name] for name in file}

    def loose(self, path: Path) -> object:
        return self.load(path, allow_pickle=True)

    def one(self, path: Path, name: str) -> Any:
        with np.load(path, allow_pickle=False) as file:
            return file[name]

    def shapes(self, path: Path) -> Shapes:
        with np.load(path, allow_pickle=False) as file:
            return {name: _shape(file.zip, f"{name}.npy") for name in file}

    def trap(self, path: Path, code: Code) -> None:
        self.save(path, {"code": np.array([code], dtype=object)}, allow_pickle=True)

    def claim(self, path: Path) -> None:
        np.savez_compressed(path, claimed=np.zeros(CLAIMED, np.uint8))


class Npy(Folder):
    """One memory-mapped file for each array."""

    name = "npy"
    call = 'numpy.load(path, mmap_mode="r", allow_pickle=False)'
    loose_call = "allow_pickle=True"

    def write(self, path: Path, array: Array) -> None:
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=False)

    def read(self, path: Path) -> Any:
        return np.load(path, mmap_mode="r", allow_pickle=False)

    def loose(self, path: Path) -> object:
        return np.load(path / "code.npy", allow_pickle=True)

    def trap(self, path: Path, code: Code) -> None:
        self.save(path, {})
        np.save(path / "code.npy", np.array([code], dtype=object))

    def claim(self, path: Path) -> None:
        self.save(path, {})
        with (path / "claimed").open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (CLAIMED,)}
            np.lib.format.write_array_header_1_0(file, header)


def _shape(archive: Any, name: str) -> tuple[int, ...]:
    with archive.open(name) as file:
        np.lib.format.read_magic(file)
        return np.lib.format.read_array_header_1_0(file)[0]


WAYS = (Npz(), Npy())
