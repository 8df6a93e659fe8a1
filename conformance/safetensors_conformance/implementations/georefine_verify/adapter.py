"""Adapter for ``georefine_verify.sources.read_safetensors_header``."""

from typing import Any

from georefine_verify.sources import LocalFile, read_safetensors_header
from stc_host.library import call, marked


@marked
class Header:
    def open(self, path: str) -> dict[str, Any]:
        file = call(LocalFile, path)
        try:
            entries, metadata, _ = call(read_safetensors_header, file)
        finally:
            call(file.close)  # the library does not close it
        return {"tensors": [(name, e.dtype, e.shape) for name, e in entries.items()], "metadata": metadata}
