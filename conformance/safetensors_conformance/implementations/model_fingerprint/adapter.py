"""Adapter of ``model_fingerprint.parse_safetensors``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model_fingerprint import FileReader, parse_safetensors
from stc_host.library import call, marked, opened


@marked
class Header:
    """The parser of the header; the digests are taken elsewhere."""

    def open(self, path: str) -> dict[str, Any]:
        with opened(FileReader, Path(path)) as reader:
            model = call(parse_safetensors, reader, Path(path))
        return {"tensors": [(t.name, t.dtype, t.dims) for t in model.tensors], "metadata": model.metadata}
