"""pickle: files of torch.save, and plain pickles of arrays."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.serialization import config

from ..way import CLAIMED, Arrays, Code, Way
from .torch_arrays import TorchWay, tensor

_FEW = 7777


class TorchLoad(TorchWay):
    """torch.save, read back by the restricted unpickler and mapped."""

    name = "torch.load"
    call = "torch.load(path, weights_only=True, mmap=True)"
    loose_call = "weights_only=False"
    file = "model.pt"

    def save(self, path: Path, arrays: Arrays) -> None:
        torch.save({name: tensor(array) for name, array in arrays.items()}, path)

    def load(self, path: Path) -> Mapping[str, Any]:
        found: Mapping[str, Any] = torch.load(path, weights_only=True, mmap=True)
        return found

    def loose(self, path: Path) -> object:
        return torch.load(path, weights_only=False)  # noqa: S614 - the experiment

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        with config.patch({"save.storage_alignment": alignment}):
            self.save(path, arrays)

    def trap(self, path: Path, code: Code) -> None:
        torch.save({"code": code}, path)

    def claim(self, path: Path) -> None:
        torch.save({"claimed": torch.zeros(_FEW, dtype=torch.uint8)}, path)
        with zipfile.ZipFile(path) as archive:
            records = {info.filename: archive.read(info) for info in archive.infolist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in records.items():
                forged = data.replace(b"M" + struct.pack("<H", _FEW), b"J" + struct.pack("<i", CLAIMED - 1))
                archive.writestr(name, forged if name.endswith("data.pkl") else data)

    def extra(self, path: Path, value: Any) -> Any:
        torch.save({"value": value}, path)
        return self.load(path)["value"]


class Pickle(Way):
    """A dict of arrays, pickled."""

    name = "pickle.load"
    call = "pickle.load(file)"
    file = "model.pkl"

    def save(self, path: Path, arrays: Arrays) -> None:
        with path.open("wb") as file:
            pickle.dump(dict(arrays), file, protocol=5)

    def load(self, path: Path) -> Mapping[str, Any]:
        with path.open("rb") as file:
            found: Mapping[str, Any] = pickle.load(file)  # noqa: S301 - the experiment
        return found

    def trap(self, path: Path, code: Code) -> None:
        path.write_bytes(pickle.dumps({"code": code}))

    def claim(self, path: Path) -> None:
        path.write_bytes(b"\x80\x05\x96" + struct.pack("<Q", CLAIMED) + b".")

    def extra(self, path: Path, value: Any) -> Any:
        path.write_bytes(pickle.dumps({"value": value}))
        return self.load(path)["value"]


WAYS = (TorchLoad(), Pickle())
