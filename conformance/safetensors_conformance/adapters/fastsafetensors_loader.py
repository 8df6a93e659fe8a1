"""Adapters of fastsafetensors without GPUDirect Storage: its loader for many files, and ``fastsafe_open``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import torch_rows
from fastsafetensors import SafeTensorsFileLoader, SingleGroup, fastsafe_open
from fastsafetensors.st_types import DType

_KNOWN = {dtype.value for dtype in DType}
LACKS = torch_rows.LACKS + tuple(
    "dtype-" + code.lower().replace("_", "-") for code in torch_rows.CODES.values() if code not in _KNOWN
)


class Loader:
    """``SafeTensorsFileLoader``."""

    name = "fastsafetensors"
    version = version("fastsafetensors")
    language = "Python"
    lacks = LACKS

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        """Parse the header. The dtype is known only from the tensors."""
        loader = self._loader(path)
        try:
            return [(name, None, loader.get_shape(name)) for name in loader.get_keys()]
        finally:
            loader.close()

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Copy the file into a buffer and look at each tensor in it."""
        loader = self._loader(path)
        try:
            buffer = loader.copy_files_to_device()
            try:
                return [torch_rows.row(name, buffer.get_tensor(name)) for name in loader.get_keys()]
            finally:
                buffer.close()
        finally:
            loader.close()

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        """Load every tensor. They stay valid when buffer and loader are closed, as the documentation says."""
        loader = self._loader(path, device)
        try:
            buffer = loader.copy_files_to_device()
            try:
                for name in loader.get_keys():
                    yield torch_rows.device_row(name, buffer.get_tensor(name))
            finally:
                buffer.close()
        finally:
            loader.close()

    @staticmethod
    def _loader(path: str, device: str = "cpu") -> Any:
        loader = SafeTensorsFileLoader(SingleGroup(), device=device, nogds=True, disable_cache=True)
        loader.add_filenames({0: [path]})
        return loader


class FastSafeOpen:
    """``fastsafe_open``, which looks like the official ``safe_open``."""

    name = "fastsafetensors"
    version = version("fastsafetensors")
    language = "Python"
    lacks = LACKS

    def read(self, path: str) -> dict[str, Any]:
        """Read every tensor, and the metadata of the one file."""
        with fastsafe_open(path, nogds=True, device="cpu") as file:
            rows = [torch_rows.row(name, file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118
            return {"tensors": rows, "metadata": file.metadata().get(path) or None}

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        """Load every tensor. They stay valid when the file is closed, as the documentation says."""
        with fastsafe_open(path, nogds=True, device=device) as file:
            for name in file.keys():  # noqa: SIM118 - the handle is not iterable
                yield torch_rows.device_row(name, file.get_tensor(name))
