"""npy and npz of NumPy."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ..way import CLAIMED, Arrays, Code, Way


class Npz(Way):
    """A zip archive of npy files, not compressed."""

    call = "numpy.load(path, allow_pickle=False)"
    loose_call = "numpy.load(path, allow_pickle=True)"
    file = "model.npz"

    def save(self, path: Path, arrays: Arrays) -> None:
        np.savez(path, **arrays)  # type: ignore[arg-type]  # by name, in this order

    def load(self, path: Path) -> Mapping[str, Any]:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file}

    def loose(self, path: Path) -> object:
        with np.load(path, allow_pickle=True) as file:
            return {name: file[name] for name in file}

    def one(self, path: Path, name: str) -> Any:
        with np.load(path, allow_pickle=False) as file:
            return file[name]

    def shapes(self, path: Path) -> Mapping[str, tuple[int, ...]]:
        found = {}
        with zipfile.ZipFile(path) as archive:  # NumPy lists names, and has a reader of headers for the rest
            for member in archive.namelist():
                with archive.open(member) as file:
                    npy.read_magic(file)
                    found[member.removesuffix(".npy")] = npy.read_array_header_1_0(file)[0]
        return found

    def trap(self, path: Path, code: Code) -> None:
        np.savez(path, code=np.array([code], dtype=object))

    def claim(self, path: Path) -> None:
        np.savez_compressed(path, claimed=np.zeros(CLAIMED, np.uint8))

    def extra(self, path: Path, value: Any) -> Any:
        np.savez(path, tensor=np.zeros(1), value=value)
        return self.one(path, "value")


class Npy(Npz):
    """One array in a file, mapped."""

    call = 'numpy.load(path, mmap_mode="r", allow_pickle=False)'
    file = "model.npy"
    single = True

    def save(self, path: Path, arrays: Arrays) -> None:
        (array,) = arrays.values()
        np.save(path, array, allow_pickle=False)

    def load(self, path: Path) -> Mapping[str, Any]:
        return {"tensor": np.load(path, mmap_mode="r", allow_pickle=False)}

    def one(self, path: Path, name: str) -> Any:
        return self.load(path)["tensor"]

    def loose(self, path: Path) -> object:
        return np.load(path, allow_pickle=True)

    def trap(self, path: Path, code: Code) -> None:
        np.save(path, np.array([code], dtype=object))

    def claim(self, path: Path) -> None:
        with path.open("wb") as file:
            npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (CLAIMED,)})

    def extra(self, path: Path, value: Any) -> Any:
        np.save(path, value, allow_pickle=False)
        return np.load(path, allow_pickle=False)


WAYS = (Npz(), Npy())
