"""Adapter of ``sft.index.TensorIndex``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sft.index import TensorIndex
from stc_host.library import call, marked


@marked
class Index:
    """The parser of the header."""

    def open(self, path: str) -> dict[str, Any]:
        index = call(TensorIndex.from_file, Path(path))
        rows = [(t.full_name, t.dtype, t.shape) for t in index.tensors]
        return {"tensors": rows, "metadata": index.metadata}
