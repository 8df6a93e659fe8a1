"""Adapter of ``UnifiedSafetensorsLoader`` in its low-memory mode, where it parses the header itself."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch_rows
from stc_host.library import call, marked, opened
from unifiedefficientloader import UnifiedSafetensorsLoader


@marked
class LowMemory:
    """Header first, then each tensor."""

    name = "unifiedefficientloader"
    version = version("unifiedefficientloader")
    language = "Python"
    lacks = (*torch_rows.LACKS, "dtype-f8-e4m3fnuz", "dtype-f8-e5m2fnuz")

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with opened(UnifiedSafetensorsLoader, path, low_memory=True) as file:
            rows = [self._listed(file, name) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with opened(UnifiedSafetensorsLoader, path, low_memory=True) as file:
            rows = [torch_rows.row(name, call(file.get_tensor, name)) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    @staticmethod
    def _listed(file: Any, name: str) -> tuple[str, Any, Any]:
        return name, *torch_rows.kind(call(file.get_dtype, name), call(file.get_shape, name))

    def hold(self, path: str) -> Held:
        """Open the file and keep it open."""
        return Held(path)


@marked
class Held:
    """A file held open."""

    def __init__(self, path: str) -> None:
        self._file = call(UnifiedSafetensorsLoader, path, low_memory=True)

    def tensor(self, name: str) -> tuple[Any, ...]:
        """Read one tensor."""
        return torch_rows.part(call(self._file.get_tensor, name))

    def close(self) -> None:
        """Close the file."""
        call(self._file.close)
