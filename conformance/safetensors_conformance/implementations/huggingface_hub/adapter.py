"""Adapter of huggingface_hub's own header parser, a second Python parser that many tools rely on."""

from __future__ import annotations

from typing import Any

from huggingface_hub import parse_local_safetensors_file_metadata
from huggingface_hub.errors import SafetensorsParsingError
from stc_host.library import call, marked


@marked
class HeaderHelper:
    """``parse_local_safetensors_file_metadata``: header only, so it has no read step."""

    rejects = (SafetensorsParsingError, FileNotFoundError)  # what the function documents

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        parsed = call(parse_local_safetensors_file_metadata, path)
        rows = [(name, info.dtype, info.shape) for name, info in parsed.tensors.items()]
        return {"tensors": rows, "metadata": parsed.metadata}
