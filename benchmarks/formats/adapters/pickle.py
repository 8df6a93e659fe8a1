"""Pickle: files written by torch.save, and plain pickles of arrays."""

from __future__ import annotations

import pickle
import struct
import zipfile
from pathlib import Path

import torch
from torch.utils.serialization import config

from ..way import CLAIMED, Arrays, Tensors, Way
from .torch_arrays import TorchWay, tensor

_FEW = 7777


class TorchLoad(TorchWay):
    """A file written by torch.save. The restricted unpickler reads it back, memory-mapped."""

    name = "torch.load"
    call = "torch.load(path, weights_only=True, mmap=True)"
    loose_call = "weights_only=False"
    file = "model.pt"
    objects = True

    def save(self, path: Path, arrays: Arrays) -> None:
        torch.save({name: tensor(array) for name, array in arrays.items()}, path)

    def load(self, path: Path) -> Tensors:
        return torch.load(path, weights_only=True, mmap=True)

    def loose(self, path: Path) -> object:
        return torch.load(path, weights_only=False)

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        with config.patch({"save.storage_alignment": alignment}):
            self.save(path, arrays)

    def claim(self, path: Path) -> None:
        torch.save({"claimed": torch.zeros(_FEW, dtype=torch.uint8)}, path)
        with zipfile.ZipFile(path) as archive:
            records = {info.filename: archive.read(info) for info in archive.infolist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in records.items():
                forged = data.replace(b"M" + struct.pack("<H", _FEW), b"J" + struct.pack("<i", CLAIMED - 1))
                archive.writestr(name, forged if name.endswith("data.pkl") else data)


class Pickle(Way):
    """A pickled dict of arrays."""

    name = "pickle.load"
    call = "pickle.load(file)"
    file = "model.pkl"
    objects = True

    def save(self, path: Path, arrays: Arrays) -> None:
        with path.open("wb") as file:
            pickle.dump(dict(arrays), file, protocol=5)

    def load(self, path: Path) -> Tensors:
        with path.open("rb") as file:
            return pickle.load(file)  # noqa: S301 - the experiment

    def claim(self, path: Path) -> None:
        path.write_bytes(b"\x80\x05\x96" + struct.pack("<Q", CLAIMED) + b".")


WAYS = (TorchLoad(), Pickle())
