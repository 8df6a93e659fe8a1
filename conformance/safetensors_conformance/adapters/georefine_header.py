"""Adapter of ``georefine_verify.sources.read_safetensors_header``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from georefine_verify.sources import LocalFile, SourceError, read_safetensors_header


class Header:
    """The parser of the header."""

    name = "georefine-verify"
    version = version("georefine-verify")
    language = "Python"
    rejects = (SourceError,)

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        entries, metadata, _ = read_safetensors_header(LocalFile(path))
        return {"tensors": [(name, e.dtype, e.shape) for name, e in entries.items()], "metadata": metadata}
