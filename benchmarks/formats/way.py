"""The interface between formats and experiments, which uses only the standard library and NumPy.

It runs in the environment of the tested library, where this project is not installed.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CLAIMED = 1 << 31
"""Size in bytes of the tensor that a small file claims to contain."""
Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Any]
Tensors = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]


class Code:
    """Code in a pickle, as an expression. By default, it creates an empty file as a marker."""

    def __init__(self, marker: str, expression: str = "") -> None:
        self.marker = marker
        self._expression = expression or f"__import__('pathlib').Path({marker!r}).touch()"

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self._expression,)

    def __call__(self, number: Any) -> Any:
        return number * number


class Way:
    """A documented way of storing and loading tensors in a format, with the safest options.

    Attributes:
        name: short name, unique within the format.
        call: the user's code for loading.
        loose_call: the same code with an unsafe option, or an empty string.
        file: name of the file or folder.
        objects: whether any object can be saved in the same way as a tensor.
    """

    name = ""
    call = ""
    loose_call = ""
    file = "model"
    objects = False

    def __init__(self) -> None:
        self.kept: list[Any] = []  # allows the experiments to count the mapped bytes

    def save(self, path: Path, arrays: Arrays) -> None:
        raise NotImplementedError

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        """Write aligned tensors if the library has an option for it."""
        raise NotImplementedError

    def load(self, path: Path) -> Tensors:
        """Return all tensors as the library returns them."""
        raise NotImplementedError

    def loose(self, path: Path) -> object:
        raise NotImplementedError

    def one(self, path: Path, name: str) -> Any:
        """Return one tensor, and read as little of the rest as possible."""
        return self.load(path)[name]

    def shapes(self, path: Path) -> Shapes:
        """Return names and shapes, and read as little of the data as possible."""
        self.kept.append(found := self.load(path))
        return {name: tuple(tensor.shape) for name, tensor in found.items()}

    def array(self, tensor: Any) -> Array:
        return np.asarray(tensor)

    def dtype(self, tensor: Any) -> str:
        return str(getattr(tensor.dtype, "name", tensor.dtype))

    def trap(self, path: Path, code: Code) -> None:
        """Write a file with code or, if the format does not support code, a tensor that contains a pickle."""
        inside = np.frombuffer(bytearray(pickle.dumps(code)), np.uint8)
        self.save(path, {"code": code if self.objects else inside})

    def claim(self, path: Path) -> None:
        """Write a file of at most 4 MiB that claims to contain a tensor of CLAIMED bytes.

        The file is forged or written in a regular way.
        """
        raise NotImplementedError

    def stored(self, path: Path, value: Any) -> Any:
        """Store a value that is not a tensor, and return the value that is read back."""
        self.save(path, {"value": value})
        back = self.load(path)["value"]
        return back.item() if isinstance(back, np.ndarray) else back


class Folder(Way):
    """A way that stores one file for each tensor, named after it."""

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
