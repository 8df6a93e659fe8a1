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

    name = "npz"
    call = "numpy.load(path, allow_pickle=False)"
    loose_call = "allow_pickle=True"
    file = "model.npz"

    def save(self, path: Path, arrays: Arrays) -> None:
        np.savez(path, allow_pickle=False, **arrays)  # type: ignore[arg-type]  # by name, in this order

    def load(self, path: Path, allow_pickle: bool = False) -> Mapping[str, Any]:
        with np.load(path, allow_pickle=allow_pickle) as file:
            return {name: file[name] for name in file}

    def loose(self, path: Path) -> object:
        return self.load(path, allow_pickle=True)

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
        self.save(path, {"value": np.array(value)})
        return self.one(path, "value").item()


class Npy(Way):
    """A folder of npy files, one for each array, mapped."""

    name = "npy"
    call = 'numpy.load(path, mmap_mode="r", allow_pickle=False)'
    loose_call = "allow_pickle=True"
    file = "folder"

    def save(self, path: Path, arrays: Arrays, allow_pickle: bool = False) -> None:
        path.mkdir(exist_ok=True)
        for name, array in arrays.items():
            np.save(path / f"{name}.npy", array, allow_pickle=allow_pickle)

    def load(self, path: Path) -> Mapping[str, Any]:
        return {file.stem: self.one(path, file.stem) for file in path.iterdir()}

    def one(self, path: Path, name: str) -> Any:
        return np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    def loose(self, path: Path) -> object:
        return np.load(path / "code.npy", allow_pickle=True)

    def trap(self, path: Path, code: Code) -> None:
        self.save(path, {"code": np.array([code], dtype=object)}, allow_pickle=True)

    def claim(self, path: Path) -> None:
        self.save(path, {})
        with (path / "claimed.npy").open("wb") as file:
            npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (CLAIMED,)})

    def extra(self, path: Path, value: Any) -> Any:
        self.save(path, {"value": np.array(value)})
        return self.one(path, "value").item()


WAYS = (Npz(), Npy())
