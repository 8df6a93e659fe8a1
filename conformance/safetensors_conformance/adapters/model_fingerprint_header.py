"""Adapter of ``model_fingerprint.parse_safetensors``."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from model_fingerprint import FileReader, ModelError, parse_safetensors


class Header:
    """The parser of the header; the digests are taken elsewhere."""

    name = "model-fingerprint"
    version = version("model-fingerprint")
    language = "Python"
    rejects = (ModelError,)

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with FileReader(Path(path)) as reader:
            model = parse_safetensors(reader, Path(path))
        return {"tensors": [(t.name, t.dtype, t.dims) for t in model.tensors], "metadata": model.metadata}
