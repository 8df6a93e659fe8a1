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
Arrays = Mapping[str, Array]


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
    """

    name = ""
    call = ""
    loose_call = ""
    file = "model"

    def __init__(self) -> None:
        self.kept: list[Any] = []  # so that what is mapped can be counted

    def save(self, path: Path, arrays: Arrays) -> None:
        """Write arrays in this order."""
        raise NotImplementedError

    def aligned(self, path: Path, arrays: Arrays, alignment: int) -> None:
        """Write with every tensor at a multiple of so many bytes, where the library has an option for it."""
        raise NotImplementedError

    def load(self, path: Path) -> Mapping[str, Any]:
        """Return all tensors as the library hands them out."""
        raise NotImplementedError

    def loose(self, path: Path) -> object:
        """Load as ``loose_call`` says."""
        raise NotImplementedError

    def one(self, path: Path, name: str) -> Any:
        """Return one tensor, as little else read as the library lets."""
        return self.load(path)[name]

    def shapes(self, path: Path) -> Mapping[str, tuple[int, ...]]:
        """Return names and shapes, as little else read as the library lets."""
        self.kept.append(found := self.load(path))
        return {name: tuple(tensor.shape) for name, tensor in found.items()}

    def array(self, tensor: Any) -> Array:
        """Return a tensor as an array, without a copy where the library lets."""
        return np.asarray(tensor)

    def dtype(self, tensor: Any) -> str:
        """Return what library or format call the dtype of a tensor."""
        return str(tensor.dtype)

    def trap(self, path: Path, code: Code) -> None:
        """Write a file that brings code; where the format has no place for it, as a pickle in a tensor."""
        self.save(path, {"pickled": np.frombuffer(bytearray(pickle.dumps(code)), np.uint8)})

    def claim(self, path: Path) -> None:
        """Write a file of at most 4 MiB with a tensor of CLAIMED bytes, forged or as the format has it."""
        raise NotImplementedError

    def extra(self, path: Path, value: Any) -> Any:
        """Store a value that is no tensor; return what comes back."""
        raise NotImplementedError
