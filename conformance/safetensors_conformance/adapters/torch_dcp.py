"""Adapter of the reader that PyTorch's distributed checkpoint has of its own, for consolidating shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import _consolidate_hf_safetensors, _hf_utils

_header = _hf_utils._get_safetensors_file_metadata  # noqa: SLF001 - what consolidate_safetensors_files calls
_data = _consolidate_hf_safetensors._read_tensor_data  # noqa: SLF001 - as above


class Consolidation:
    """Header and byte ranges, as the consolidation reads them."""

    name = "torch-dcp"
    version = str(torch.__version__)
    language = "Python"

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        with Path(path).open("rb") as file:
            header, _ = _header(file)
        return self._answer(header, lambda _: ())

    def read(self, path: str) -> dict[str, Any]:
        """Read every range."""
        with Path(path).open("rb") as file:
            header, begin = _header(file)
            return self._answer(header, lambda info: (_data(file, *info["data_offsets"], begin),))

    @staticmethod
    def _answer(header: dict[str, Any], more: Any) -> dict[str, Any]:
        metadata = header.pop("__metadata__", None)
        rows = [(name, info["dtype"], info["shape"], *more(info)) for name, info in header.items()]
        return {"tensors": rows, "metadata": metadata}
