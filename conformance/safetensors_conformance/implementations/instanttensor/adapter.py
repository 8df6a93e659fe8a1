"""Adapter of InstantTensor's ``read_safetensors_metadata``; its loading needs a GPU."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import header_rows
from instanttensor._impl import read_safetensors_metadata
from stc_host.library import call, marked


@marked
class Header:
    """The parser of the header."""

    name = "instanttensor"
    version = version("instanttensor")
    language = "Python"

    def open(self, path: str) -> dict[str, Any]:
        """Parse the header."""
        metadata, entries, _ = call(read_safetensors_metadata, path)
        return {"tensors": header_rows.rows(entries), "metadata": metadata}
