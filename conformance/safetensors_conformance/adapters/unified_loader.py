"""Adapter of ``UnifiedSafetensorsLoader`` in its low-memory mode, where it parses the header itself."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch_rows
from unifiedefficientloader import UnifiedSafetensorsLoader


class LowMemory:
    """Header first, then each tensor."""

    name = "unifiedefficientloader"
    version = version("unifiedefficientloader")
    language = "Python"
    lacks = (*torch_rows.LACKS, "dtype-f8-e4m3fnuz", "dtype-f8-e5m2fnuz")

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with UnifiedSafetensorsLoader(path, low_memory=True) as file:
            rows = [self._listed(file, name) for name in file.keys()]  # noqa: SIM118
            return {"tensors": rows, "metadata": file.metadata()}

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor."""
        with UnifiedSafetensorsLoader(path, low_memory=True) as file:
            rows = [torch_rows.row(name, file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118
            return {"tensors": rows, "metadata": file.metadata()}

    @staticmethod
    def _listed(file: Any, name: str) -> tuple[str, Any, Any]:
        code, shape = torch_rows.CODES.get(file.get_dtype(name)), list(file.get_shape(name))
        if code == "F4" and shape:
            shape[-1] *= 2  # torch packs two four-bit floats into one element
        return name, code, shape

    def hold(self, path: str) -> Held:
        """Open the file and keep it open."""
        return Held(path)


class Held:
    """A file held open."""

    def __init__(self, path: str) -> None:
        self._file = UnifiedSafetensorsLoader(path, low_memory=True)

    def tensor(self, name: str) -> tuple[Any, ...]:
        """Read one tensor."""
        return torch_rows.part(self._file.get_tensor(name))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
