"""The interface of formats for the experiments; uses only the standard library and NumPy.

It runs in the environment of the tested library, where nothing of this project is installed.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CLAIMED = 1 << 31
"""Bytes of one tensor that a small file claims to contain."""
Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Any]
Tensors = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]


class Code:
    """Code in a pickle, as an expression: by default it leaves an empty file as a marker."""

    def __init__(self, marker: str, expression: str = "") -> None:
        self.marker = marker
        self._expression = expression or f"__import__('pathlib').Path({marker!r}).touch()"

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self._expression,)

    def __call__(self, number: Any) -> Any:
        return number * number


class Way:
    """A documented way of storing and loading tensors in a format, with its safest options.

    Attributes:
        name: short, unique in the format.
        call: the user's code for loading.
        loose_call: the same with an unsafe option; empty for none.
        file: name of the file, or of the folder.
        objects: True where any object can be saved like a tensor.
    """

    name = ""
    call = ""
    loose_call = ""
    file = "model"
    objects = False

    def __init__(self) -> None:
        self.kept: list[Any] = []  # so that the mapping can be counted

    def save(self, path: Path, arrays: Arrays) -> None:
        raise NotImplementedError

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        """Write with aligned tensors, where the library has an option for it."""
        raise NotImplementedError

    def load(self, path: Path) -> Tensors:
        """Return all tensors as the library returns them."""
        raise NotImplementedError

    def loose(self, path: Path) -> object:
        raise NotImplementedError

    def one(self, path: Path, name: str) -> Any:
        """Return one tensor, reading as little else as possible."""
        return self.load(path)[name]

    def shapes(self, path: Path) -> Shapes:
        """Return names and shapes, reading as little else as possible."""
        self.kept.append(found := self.load(path))
        return {name: tuple(tensor.shape) for name, tensor in found.items()}

    def array(self, tensor: Any) -> Array:
        return np.asarray(tensor)

    def dtype(self, tensor: Any) -> str:
        return str(getattr(tensor.dtype, "name", tensor.dtype))

    def trap(self, path: Path, code: Code) -> None:
        """Write a file with code; where the format has no place for it, as a pickle in a tensor."""
        inside = np.frombuffer(bytearray(pickle.dumps(code)), np.uint8)
        self.save(path, {"code": code if self.objects else inside})

    def claim(self, path: Path) -> None:
        """Write a file of at most 4 MiB with a tensor of CLAIMED bytes, forged or by regular means."""
        raise NotImplementedError

    def stored(self, path: Path, value: Any) -> Any:
        """Store a value that is not a tensor; return it as it comes back."""
        self.save(path, {"value": value})
        back = self.load(path)["value"]
        return back.item() if isinstance(back, np.ndarray) else back


class Folder(Way):
    """A way with a file per tensor, named like it."""

    file = "folder"

    def write(self, path: Path, array: Array) -> None:
        raise NotImplementedError

    def read(self, path: Path) -> Any:
        raise NotImplementedError

    def save(self, path: Path, arrays: Arrays) -> None:
        path.mkdir(exist_ok=True)
        for name, array in arrays.items():
            self.write(path / name, array)

    def load(self, path: Path) -> Tensors:
        return {file.name: self.read(file) for file in path.iterdir()}

    def one(self, path: Path, name: str) -> Any:
        return self.read(path / name)
