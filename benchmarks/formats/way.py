"""What the experiments ask of a format: the common interface, standard library and NumPy alone.

It runs in the environment of the library under test, where nothing of this project is installed.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CLAIMED = 1 << 31
"""Bytes of one tensor that a small file claims to hold."""
Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Any]
Tensors = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]


class Code:
    """Code in a pickle, an expression: by default it leaves an empty file as a marker."""

    def __init__(self, marker: str, expression: str = "") -> None:
        self.marker = marker
        self._expression = expression or f"__import__('pathlib').Path({marker!r}).touch()"

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self._expression,)

    def __call__(self, number: Any) -> Any:
        """Return the square, as the code of the experiment on flexibility does."""
        return number * number


class Way:
    """A documented way of storing and loading tensors in a format, its safest options set.

    Attributes:
        name: short, different from the other ways of the format.
        call: what a user writes to load.
        loose_call: the same with an option that is advised against; empty for none.
        file: name of the file, or of the folder.
        objects: True where any object can be saved like a tensor.
    """

    name = ""
    call = ""
    loose_call = ""
    file = "model"
    objects = False

    def __init__(self) -> None:
        self.kept: list[Any] = []  # so that what is mapped can be counted

    def save(self, path: Path, arrays: Arrays) -> None:
        """Write arrays in this order."""
        raise NotImplementedError

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        """Write with every tensor at a multiple of so many bytes, where the library has an option for it."""
        raise NotImplementedError

    def load(self, path: Path) -> Tensors:
        """Return all tensors as the library hands them out."""
        raise NotImplementedError

    def loose(self, path: Path) -> object:
        raise NotImplementedError

    def one(self, path: Path, name: str) -> Any:
        """Return one tensor, as little else read as the library lets."""
        return self.load(path)[name]

    def shapes(self, path: Path) -> Shapes:
        """Return names and shapes, as little else read as the library lets."""
        self.kept.append(found := self.load(path))
        return {name: tuple(tensor.shape) for name, tensor in found.items()}

    def array(self, tensor: Any) -> Array:
        return np.asarray(tensor)

    def dtype(self, tensor: Any) -> str:
        return str(getattr(tensor.dtype, "name", tensor.dtype))

    def trap(self, path: Path, code: Code) -> None:
        """Write a file that brings code; where the format has no place for it, as a pickle in a tensor."""
        inside = np.frombuffer(bytearray(pickle.dumps(code)), np.uint8)
        self.save(path, {"code": code if self.objects else inside})

    def claim(self, path: Path) -> None:
        """Write a file of at most 4 MiB with a tensor of CLAIMED bytes, forged or as the format has it."""
        raise NotImplementedError

    def stored(self, path: Path, value: Any) -> Any:
        """Store a value that is no tensor; return it as it comes back."""
        self.save(path, {"value": value})
        back = self.load(path)["value"]
        return back.item() if isinstance(back, np.ndarray) else back


class Folder(Way):
    """A way with a file for each tensor, named like it."""

    file = "folder"

    def write(self, path: Path, array: Array) -> None:
        raise NotImplementedError

    def read(self, path: Path) -> Any:
        raise NotImplementedError

    def save(self, path: Path, arrays: Arrays) -> None:
        """Write a file for each."""
        path.mkdir(exist_ok=True)
        for name, array in arrays.items():
            self.write(path / name, array)

    def load(self, path: Path) -> Tensors:
        """Return what all files hold."""
        return {file.name: self.read(file) for file in path.iterdir()}

    def one(self, path: Path, name: str) -> Any:
        return self.read(path / name)
