"""Adapters for fastsafetensors without GPUDirect Storage: its multi-file loader and ``fastsafe_open``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lacking
import torch_rows
from fastsafetensors import SafeTensorsFileLoader, SingleGroup, fastsafe_open
from fastsafetensors.st_types import DType
from stc_host.library import UNTOLD, call, marked, opened

_KNOWN = {dtype.value for dtype in DType}
LACKS = lacking.all_but(_KNOWN.intersection(torch_rows.CODES.values()))


@marked
class Loader:
    lacks = LACKS

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        loader = self._loader(path)
        try:
            return [(name, UNTOLD, call(loader.get_shape, name)) for name in call(loader.get_keys)]
        finally:
            call(loader.close)

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        with self._loaded(path) as (loader, buffer):
            names = call(loader.get_keys)
            return [torch_rows.row(name, call(buffer.get_tensor, name)) for name in names]

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        """Load every tensor. The library documents that tensors outlive the buffer and the loader."""
        with self._loaded(path, device) as (loader, buffer):
            for name in call(loader.get_keys):
                yield torch_rows.device_row(name, call(buffer.get_tensor, name))

    @contextmanager
    def _loaded(self, path: str, device: str = "cpu") -> Iterator[tuple[Any, Any]]:
        loader = self._loader(path, device)
        try:
            buffer = call(loader.copy_files_to_device)
            try:
                yield loader, buffer
            finally:
                call(buffer.close)
        finally:
            call(loader.close)

    @staticmethod
    def _loader(path: str, device: str = "cpu") -> Any:
        group = call(SingleGroup)
        loader = call(SafeTensorsFileLoader, group, device=device, nogds=True, disable_cache=True)
        call(loader.add_filenames, {0: [path]})
        return loader


@marked
class FastSafeOpen:
    lacks = LACKS

    def read(self, path: str) -> dict[str, Any]:
        with opened(fastsafe_open, path, nogds=True, device="cpu") as file:
            rows = [torch_rows.row(name, call(file.get_tensor, name)) for name in call(file.keys)]
            metadata = call(file.metadata)[path]
            # An empty string means no metadata.
            return {"tensors": rows, "metadata": None if metadata == "" else metadata}

    def device(self, path: str, device: str) -> Iterator[tuple[str, Any, Any, Any]]:
        with opened(fastsafe_open, path, nogds=True, device=device) as file:
            for name in call(file.keys):
                yield torch_rows.device_row(name, call(file.get_tensor, name))
