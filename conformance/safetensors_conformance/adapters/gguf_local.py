"""Adapter of ``gguf.utility.SafetensorsLocal``, with which llama.cpp converts models."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from gguf.utility import SafetensorsLocal


class Local:
    """Parses the header itself and maps each tensor."""

    name = "gguf"
    version = version("gguf")
    language = "Python"
    rejects = (ValueError,)

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        """Parse the header."""
        return [(name, t.dtype, t.shape) for name, t in SafetensorsLocal(Path(path)).tensors.items()]

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Map every tensor."""
        tensors = SafetensorsLocal(Path(path)).tensors
        return [(name, t.dtype, t.shape, t.mmap_bytes().tobytes()) for name, t in tensors.items()]

    def hold(self, path: str) -> Held:
        """Parse the header; the file is mapped for each tensor."""
        return Held(path)


class Held:
    """A parsed header."""

    def __init__(self, path: str) -> None:
        self._tensors = SafetensorsLocal(Path(path)).tensors

    def tensor(self, name: str) -> tuple[Any, Any, Any]:
        """Map one tensor."""
        found = self._tensors[name]
        return found.dtype, found.shape, found.mmap_bytes()

    def close(self) -> None:
        """Nothing is open."""
