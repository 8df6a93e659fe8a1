"""Adapter of InstantTensor's ``read_safetensors_metadata``, which its ``safe_open`` begins with."""

from __future__ import annotations

from typing import Any

import header_rows
from instanttensor._impl import read_safetensors_metadata
from stc_host.library import call, marked


@marked
class Header:
    """The parser of the header."""

    def open(self, path: str) -> dict[str, Any]:
        metadata, entries, _ = call(read_safetensors_metadata, path)
        return {"tensors": header_rows.rows(entries), "metadata": metadata}
