"""Adapter of ``reminis.safetensors_io.load_tensors``."""

from __future__ import annotations

from typing import Any

from reminis.safetensors_io import load_tensors
from stc_host.library import call, marked


@marked
class Io:
    """Loads a file or what an index names."""

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        return [(name, *part) for name, part in call(load_tensors, path).items()]

    def index(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        return self.read(path)
